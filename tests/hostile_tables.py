"""Segments whose tables are malformed, and values that are legal but easy to lose.

`REFUSED_TABLES` maps a description to the maker of a segment that no database wrote. `EXACT_CELLS`
lists legal values; `exact_segment` puts them all into one segment, whose exports must come out byte
for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.segments_kit import (
    Cell,
    block_rows,
    build_segment,
    columns,
    pg_csv,
    table_rows,
)

_LONG = "0123456789abcdef, " * 180_000


def with_header(folder: Path, change: Callable[[list[str]], list[str]]) -> Path:
    """A segment whose `orders` has one row under a changed header."""
    header, rows = table_rows("orders", {})
    changed = change(list(header))
    fitted = [(row + [None] * len(changed))[: len(changed)] for row in rows]
    return build_segment(folder, tables={"orders": (changed, fitted)})


def unknown_column(folder: Path, name: str = "from_the_future") -> Path:
    """`orders` has one more column at its end (legal)."""
    return with_header(folder, lambda header: [*header, name])


def missing_column(folder: Path, name: str = "reduce_only") -> Path:
    """`orders` lacks a column (legal: the header is the authority)."""
    return with_header(folder, lambda header: [each for each in header if each != name])


def renamed_column(folder: Path) -> Path:
    """`orders` calls a column otherwise than its schema version does."""
    return with_header(folder, lambda header: ["size_" if n == "size" else n for n in header])


def duplicated_column(folder: Path) -> Path:
    """`orders` names a column twice."""
    return with_header(folder, lambda header: [*header, "price"])


def reordered_columns(folder: Path) -> Path:
    """`orders` has its first two columns swapped."""
    return with_header(folder, lambda header: [header[1], header[0], *header[2:]])


def nameless_column(folder: Path) -> Path:
    """`orders` has a column without a name."""
    header, rows = table_rows("orders", {})
    named, feed, body = pg_csv([*header, "name"], [[*row, None] for row in rows]).partition(b"\n")
    return build_segment(folder, tables={"orders": named.removesuffix(b"name") + feed + body})


def key_twice(folder: Path) -> Path:
    """`orders` has two rows of one primary key."""
    row = {"vega_time": "2023-01-01 00:00:00+00", "seq_num": "1"}
    return build_segment(folder, tables={"orders": table_rows("orders", row, row)})


def other_blocks(folder: Path) -> Path:
    """Table `blocks` holds the heights of the following segment."""
    return build_segment(folder, tables={"blocks": (columns("blocks"), block_rows(1001, 2000))})


def changed_body(folder: Path, change: Callable[[bytes], bytes]) -> Path:
    """A segment with two rows of `orders`, references `one` and `two`, whose bytes are changed."""
    header, rows = table_rows("orders", {"reference": "one"}, {"reference": "two"})
    line, feed, body = pg_csv(header, rows).partition(b"\n")
    return build_segment(folder, tables={"orders": line + feed + change(body)})


_CHANGES: Mapping[str, Callable[[bytes], bytes]] = {
    "a row with a field too few": lambda body: body.replace(b",f,f\n", b",f\n", 1),
    "a row with a field too many": lambda body: body.replace(b",f,f\n", b",f,f,f\n", 1),
    "a last row with a field too few": lambda body: body[: -len(b",f\n")] + b"\n",
    "a blank line between rows": lambda body: body.replace(b"\n", b"\n\n", 1),
    "bytes that are not UTF-8": lambda body: body.replace(b"one", b"\xff\xfe"),
    "half of a UTF-8 sequence": lambda body: body.replace(b"one", b"\xc3"),
    "a NUL byte": lambda body: body.replace(b"one", b"o\x00e"),
    "a quote that never closes": lambda body: body.replace(b"two", b'"two'),
    "an unclosed quote at the end": lambda body: body[: -len(b"f\n")] + b'"f\n',
    "a stray quote inside a value": lambda body: body.replace(b"one", b'o"e'),
    "text after a closing quote": lambda body: body.replace(b"one", b'"o"ne'),
    "a value quoted without need": lambda body: body.replace(b"one", b'"one"'),
    "a bare CR in a value": lambda body: body.replace(b"one", b"o\re"),
    "rows that end with CR LF": lambda body: body.replace(b"\n", b"\r\n"),
    "a last row without its line feed": lambda body: body[:-1],
}


def _changing(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    return lambda folder: changed_body(folder, change)


REFUSED_TABLES: Mapping[str, Callable[[Path], Path]] = {
    "a renamed column": renamed_column,
    "a duplicated column": duplicated_column,
    "reordered columns": reordered_columns,
    "a column without a name": nameless_column,
    "a primary key twice": key_twice,
    "the heights of other blocks": other_blocks,
    "an entry of no bytes": lambda folder: build_segment(folder, tables={"orders": b""}),
    **{name: _changing(change) for name, change in _CHANGES.items()},
}

EXACT_CELLS: Mapping[tuple[str, str], tuple[Cell, ...]] = {
    ("orders", "reference"): (
        *(None, "", " ", "NULL", "\\N", "\\.", "#tag", "#", ";", "'", "\t", "\x01", "\x7f"),
        *(",", '"', '""', "\n", "\r", "\r\n", "trail\r", "\nlead", " padded ", 'a,b\n"c"\r\nd'),
        *("\ufeffbom", "é€😀", "e\u0301", "\u2028", "\\x00", "{}", _LONG),
    ),
    ("orders", "price"): ("9" * 38, "1" + "0" * 38, "-5", f"{2**256 - 1}", "9" * 1000, "NaN", "0"),
    ("orders", "side"): ("0", "3", "32767", "-32768"),
    ("orders", "size"): ("-1", f"{2**63 - 1}", f"{-(2**63)}"),
    ("orders", "pegged_offset"): (None, "0"),
    ("orders", "lp_id"): (None, "\\x", "\\x00", "\\x" + "ab" * 32, "\\x" + "00ff" * 4000),
    ("orders", "expires_at"): (
        *(None, "infinity", "-infinity", "1970-01-01 00:00:00+00", "2023-05-01 10:00:00.5+00"),
        *("2023-05-01 10:00:00.000001+00", "0001-01-01 00:00:00+00", "0044-03-15 12:00:00+00 BC"),
        *("4714-11-24 00:00:00+00 BC", "9999-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00"),
        "294276-12-31 23:59:59.999999+00",
    ),
    ("withdrawals", "status"): ("STATUS_OPEN", "STATUS_FROM_THE_FUTURE"),
    ("withdrawals", "amount"): (None, "10", "1.50", "9" * 39, "NaN", "Infinity", "-Infinity"),
    ("withdrawals", "ext"): (
        *("{}", "null", "[]", "true", "1.10", '""', '{"a": 1, "bb": [1, 2]}', '"\\u0001 \\" é"'),
        '{"n": 123456789012345678901234567890.10}',
    ),
    ("positions", "realised_pnl"): (
        *("0.00", "10.0", "1.50", "-123.3333333333333333", "1" * 22 + "." + "3" * 16, "9" * 100),
        *("0." + "0" * 99 + "1", "NaN", "Infinity", "-Infinity"),
    ),
    ("liquidity_provisions", "fee"): (
        *(None, "0.0000000000000000", "0.0100000000000000", "-1.5000000000000000", "NaN"),
        "9" * 40 + ".1234567890123456",
    ),
    ("rewards", "percent_of_total"): (
        *(None, "0", "-0", "0.1", "100", "1e-05", "0.0001", "1e+15", "100000000000000"),
        *("1.234567890123456e+15", "0.30000000000000004", "5e-324", "1.7976931348623157e+308"),
        *("NaN", "Infinity", "-Infinity"),
    ),
    ("oracle_data", "signers"): (None, "{}", "{NULL}", '{"\\\\xde01","\\\\x"}'),
}
"""Legal texts by table and column, as PostgreSQL prints them."""


def exact_segment(folder: Path, *, first: int = 1, last: int = 1000) -> Path:
    """One segment of schema version 1 that holds every value of `EXACT_CELLS`."""
    rows: dict[str, list[Mapping[str, Cell]]] = {}
    for (table, column), cells in EXACT_CELLS.items():
        rows.setdefault(table, []).extend({column: cell} for cell in cells)
    tables = {table: table_rows(table, *cells, first=first) for table, cells in rows.items()}
    return build_segment(folder, first=first, last=last, tables=tables)
