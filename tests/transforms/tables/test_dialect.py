"""DuckDB's CSV reader and writer against an oracle that shares nothing with it (spec 2.8.1-5).

An upgrade of DuckDB that quotes, trims or folds otherwise fails here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import each_of
from tests.pg_csv import Cell, pg_csv
from transforms.duck import Connection, quote_files, quote_name, quote_text, working_connection
from transforms.errors import ConfigError
from transforms.tables.dialect import (
    LineCounter,
    check_null,
    header_names,
    line_sql,
    read_sql,
    select_list,
)

_NULLS = ["", "NULL", "\\N", "-", "null value", "é"]
_HARD: list[Cell] = [
    *(None, "", ",", '"', '""', "\r", "\n", "\r\n", "\n\r", "#", "# x", "\\.", "\\", "\\N", "'"),
    *(
        " ",
        " lead",
        "trail ",
        "\t",
        "\ufeff",
        "a\ufeffb",
        "😀",
        "e\u0301",
        "\u2028",
        "\x01",
        "\x7f",
    ),
    *("NULL", "null", "-", "a,b", 'say "hi"', "x\ny", "x\r", ";", "|", "0", "-0", "1e5", "true"),
    *("\\,", '\\"', '",', '"\n', "a#b", "--", "/*", "{}", "[]", "{'a': 1}", "é", "null value"),
]
_CELLS = st.one_of(
    st.sampled_from(_HARD),
    st.lists(st.sampled_from([cell or "" for cell in _HARD]), max_size=4).map("".join),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
)
_TABLES = st.integers(2, 4).flatmap(lambda n: st.lists(st.tuples(*[_CELLS] * n), max_size=8))


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with (
        tempfile.TemporaryDirectory() as scratch,
        working_connection(Path(scratch)) as connection,
    ):
        yield connection


def _names(width: int) -> list[str]:
    return [f"column {number}" for number in range(width)]


def _header(names: Sequence[str]) -> bytes:
    return (",".join(names) + "\n").encode()


def _copied(con: Connection, files: Sequence[bytes], names: Sequence[str], null: str = "") -> bytes:
    """Read CSV files with DuckDB and write their rows into one."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.csv") for number in range(len(files))]
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
        return _written(con, read_sql(paths, names), names, null)


def _written(con: Connection, rows: str, names: Sequence[str], null: str = "") -> bytes:
    """Write rows as CSV without their header."""
    line = line_sql([(quote_name(name), False) for name in names], null)
    return "".join(
        text for (text,) in con.execute(f"select {line} from {rows}").fetchall()
    ).encode()


@settings(max_examples=150, deadline=None)
@given(rows=_TABLES, null=st.sampled_from(_NULLS))
@example(rows=[tuple(_HARD), tuple(reversed(_HARD))], null="")
@example(rows=[tuple(_HARD)], null="NULL")
@example(rows=[tuple(_HARD)], null="\\N")
@example(rows=[tuple(_HARD)], null="-")
@example(rows=[(None, None), (None, None)], null="")
@example(rows=[("", ""), (None, "")], null="NULL")
def test_any_table_of_text_is_read_and_written_like_postgresql(
    con: Connection, rows: list[tuple[Cell, ...]], null: str
) -> None:
    names = _names(len(rows[0]) if rows else 2)
    written = _copied(con, [pg_csv(names, rows)], names, null)
    assert _header(names) + written == pg_csv(names, rows, null)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.tuples(_CELLS, _CELLS), max_size=4), min_size=1, max_size=4))
def test_files_are_read_in_order_and_each_knows_its_rows(
    con: Connection, files: list[list[tuple[Cell, ...]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        # The names descend: it is not they that give the order.
        for number, rows in enumerate(files):
            paths.append(Path(folder, f"{9 - number}.csv"))
            paths[-1].write_bytes(pg_csv(["a", "b"], rows))
        read = con.execute(f"select file_index, a, b from {read_sql(paths, ['a', 'b'])}").fetchall()
    assert read == [(number, *row) for number, rows in enumerate(files) for row in rows]


@pytest.mark.parametrize("null", _NULLS, ids=repr)
def test_every_hard_value_is_quoted_only_where_the_rule_says(con: Connection, null: str) -> None:
    differing = []
    for value in _HARD:
        rows = [(value, "x"), ("x", value)]
        written = _copied(con, [pg_csv(["a", "b"], rows)], ["a", "b"], null)
        if b"a,b\n" + written != pg_csv(["a", "b"], rows, null):
            differing.append((value, written))
    assert differing == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a,b\n1\n", "Expected Number of Columns: 2 Found: 1"),
        (b"a,b\n1,2,3\n", "Expected Number of Columns: 2 Found: 3"),
        (b"a,b\n1,2\n3\n", "Expected Number of Columns: 2 Found: 1"),
        (b'a,b\n1,"2\n', "quote"),
        (b'a,b\n1,"2"x\n', "quote"),
        (b"a,b\n1,2\n" + b"x" * 3_000_000 + b",2\n", "Maximum line size"),
    ],
    ids=lambda value: repr(value[:16]),
)
def test_text_that_is_no_table_is_an_error(con: Connection, data: bytes, words: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match=words):
        _copied(con, [data], ["a", "b"])


@pytest.mark.parametrize("size", [1_999_000, 2_500_000, 40_000_000])
def test_a_row_may_be_as_long_as_allowed(con: Connection, tmp_path: Path, size: int) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(pg_csv(["a", "b"], [("x\n" * (size // 2), None), ("next", "")]))
    read = read_sql([path], ["a", "b"], path.stat().st_size)
    assert b"a,b\n" + _written(con, read, ["a", "b"]) == path.read_bytes()


def test_names_of_files_and_columns_are_only_names(con: Connection, tmp_path: Path) -> None:
    """No pattern, no hive partition, no way out of a quoted name."""
    folder = tmp_path / "id=5" / 'a*b?[c]{d}\' "e" é'
    likeness = tmp_path / "id=5" / 'aXbYc{d}\' "e" é'
    for each in (folder, likeness):
        each.mkdir(parents=True)
    (likeness / "t;drop.csv").write_bytes(b"not,to,be,read\n")
    names = ["id", 'x"y', "select", "it's", "a b", "é", "filename", "rowid"]
    data = _header(names) + b"1,2,3,4,5,6,7,8\n"
    path = folder / "t;drop.csv"
    path.write_bytes(data)
    assert _written(con, read_sql([path], names), names) == b"1,2,3,4,5,6,7,8\n"


@each_of(
    ("line", "names"),
    [
        (b"a,b\n", ("a", "b")),
        (b"a\n", ("a",)),
        (b"\n", ("",)),
        (b"a,,b\n", ("a", "", "b")),
        (b' a,"b"\n', (" a", '"b"')),
        ("é,😀\n".encode(), ("é", "😀")),
        (b"a,b\r\n", ("a", "b\r")),
    ],
)
def test_a_header_line_is_split_at_commas(line: bytes, names: tuple[str, ...]) -> None:
    assert header_names(line) == names


@pytest.mark.parametrize("null", [",", '"', "\n", "\r", "a\r\nb", 'NULL"', "a,b"])
def test_a_null_string_that_no_reader_could_tell_is_refused(null: str) -> None:
    with pytest.raises(ConfigError, match="holds a comma, a quote or a line end"):
        check_null(null)


def test_sql_text_is_quoted() -> None:
    assert quote_name('a"b') == '"a""b"'
    assert quote_text("it's") == "'it''s'"
    assert quote_files([Path("a"), Path("b'?")]) == "['a', 'b''[?]']"
    assert select_list([("1", "a"), ("x + 1", 'b"c')]) == '1 as "a", x + 1 as "b""c"'


@given(
    st.lists(st.sampled_from(["", "a", "\n", '"', '""', ",", "\r\n", '{"b": ""}']), max_size=30),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_line_feeds_inside_quotes_are_no_ends_of_rows(
    cells: list[str], cuts: Sequence[int]
) -> None:
    text = pg_csv(["id"], [[cell] for cell in cells])
    places = [0, *sorted(cuts), len(text)]
    lines = LineCounter()
    for begin, end in pairwise(places):
        lines.update(text[begin:end])
    assert lines.count == 1 + len(cells)
    longest = max(len(pg_csv(["id"], [[cell]])) - len("id\n") for cell in ["id", *cells])
    assert longest <= lines.longest <= len(text)
