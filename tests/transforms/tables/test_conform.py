"""Types and text forms: a cell is typed only where it renders back to its very text."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import each_of
from tests.pg_csv import Cell
from transforms.duck import Connection, working_connection
from transforms.tables.conform import conversion, rendered, typed_rows
from transforms.tables.registry import Column

_TIMES = "timestamp with time zone"
_TYPES = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "hugeint": "DECIMAL(38,0)",
    "numeric(1000,16)": "DECIMAL(38,16)",
    _TIMES: "TIMESTAMPTZ",
    "boolean": "BOOLEAN",
    "jsonb": "JSON",
    "double precision": "DOUBLE",
    "bytea": "VARCHAR",
    "numeric": "VARCHAR",
    "text": "VARCHAR",
    "bytea[]": "VARCHAR",
    "order_status": "VARCHAR",
    "unknown": "VARCHAR",
}
_AS_TEXT = [name for name, held in _TYPES.items() if held == "VARCHAR" and name != "bytea"]


@dataclass(frozen=True)
class _Held:
    """What becomes of one cell: its text from the value alone, with `_raw`, and the fast way."""

    typed: Cell
    whole: Cell
    raw: bool
    fast: Cell


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with (
        tempfile.TemporaryDirectory() as scratch,
        working_connection(Path(scratch)) as connection,
    ):
        yield connection


def _hold(con: Connection, texts: Sequence[Cell], column: Column, table: str = "t") -> list[_Held]:
    """Send cells through the SQL of a load, exact and fast, and render them back."""
    exact = _rendered(con, texts, column, table, exact=True)
    fast = _rendered(con, texts, column, table, exact=False)
    for text, (_, _, raw), (_, whole, _) in zip(texts, exact, fast, strict=True):
        assert whole == text or raw  # what the fast way cannot, the proof tells, and the exact can
    return [_Held(*each, made[1]) for each, made in zip(exact, fast, strict=True)]


def _rendered(
    con: Connection, texts: Sequence[Cell], column: Column, table: str, *, exact: bool
) -> list[tuple[Cell, Cell, bool]]:
    """The texts of typed cells without and with `_raw`, and whether they are there."""
    cells = pa.table({column.name: pa.array(texts, pa.string()), "_at": range(len(texts))})
    con.register("cells", cells)
    typed = typed_rows(table, [column], "cells", [("_at", "_at")], exact=exact)
    shown = [rendered(table, column, raw=raw) for raw in (False, True)]
    try:
        return con.execute(
            f"select {', '.join(shown)}, _raw is not null from ({typed}) order by _at"
        ).fetchall()
    finally:
        con.unregister("cells")


def test_a_type_has_its_column_in_duckdb() -> None:
    assert {name: conversion("orders", Column("c", name)).type for name in _TYPES} == _TYPES


def test_withdrawn_amounts_are_whole_numbers() -> None:
    amount = Column("amount", "numeric")
    assert conversion("withdrawals", amount).type == "DECIMAL(38,0)"
    assert conversion("positions", amount).type == "VARCHAR"


# What each type holds as a value, and what it leaves to `_raw`.
_TYPED: dict[str, list[str]] = {
    "smallint": ["0", "1", "-1", "32767", "-32768"],
    "integer": ["0", "2147483647", "-2147483648"],
    "bigint": ["0", f"{2**63 - 1}", f"{-(2**63)}"],
    "hugeint": ["0", "-1", "9" * 38, "-" + "9" * 38],
    "numeric(1000,16)": [
        "0.0000000000000000",
        "-0.0000000000000001",
        "1.5000000000000000",
        "9" * 22 + "." + "9" * 16,
        "-" + "9" * 22 + "." + "9" * 16,
    ],
    _TIMES: [
        "1970-01-01 00:00:00+00",
        "2023-05-01 10:00:00.5+00",
        "2023-05-01 10:00:00.0227+00",
        "2023-05-01 10:00:00.000001+00",
        "1969-12-31 23:59:59.999999+00",
        "0001-01-01 00:00:00+00",
        "9999-12-31 23:59:59.999+00",
    ],
    "boolean": ["t", "f"],
    "jsonb": [
        *(
            "{}",
            "[]",
            "null",
            "true",
            '""',
            "0",
            "-1",
            "1.10",
            "1" + "0" * 60,
            "0." + "0" * 30 + "1",
        ),
        *('{"a": 1, "bb": [1, 2]}', '"\\u0001 \\" \\\\ é 😀 \x7f"', '{"": {"": [[]]}}'),
        '{"n": 123456789012345678901234567890.10}',
    ],
    "double precision": [
        *("0", "-0", "1", "-1", "0.1", "100", "1e-05", "0.0001", "1e+15", "100000000000000"),
        *("999999999999999", "1.234567890123456e+15", "-1e+15", "9.999999999999998e+15", "1e+16"),
        *("1.0000000000000005e+15", "-1.1258999068426242e+15", "562949953421312.1"),
        *("123456789012345.6", "0.30000000000000004", "1e+100", "1e-100", "5e-324"),
        *("2.2250738585072014e-308", "1.7976931348623157e+308", "NaN", "Infinity", "-Infinity"),
    ],
    "bytea": [
        *("\\x", "\\x00", "\\x" + "ab" * 32, "\\x" + "00ff" * 4000),
        *("\\x0", "\\xAB", "\\xzz", "\\x00 ", "\\x é"),
    ],
    "text": ["", " ", "\\.", "NULL", "a\r\nb", "😀"],
    "numeric": ["1.50", "10.0", "0.00", "NaN", "Infinity", "9" * 1000, "-123.3333333333333333"],
}
_RAW: dict[str, list[str]] = {
    "smallint": ["32768", "-0", "+1", "01", " 1", "1 ", "1.0", "1e2", "0x10", "1_000", "", "NULL"],
    "integer": ["2147483648", "-2147483649", "1.5", "true"],
    "bigint": [f"{2**63}", f"{-(2**63) - 1}", "1e3"],
    "hugeint": ["1" + "0" * 38, "9" * 78, f"{2**256 - 1}", "9" * 1000, "1.50", "1.0", "-0", "NaN"],
    "numeric(1000,16)": [
        *("0", "1.5", "0.000000000000000", "-0.0000000000000000", "NaN", ".5000000000000000"),
        *("1" + "0" * 22 + "." + "0" * 16, "0.00000000000000001", "1.00000000000000005"),
    ],
    _TIMES: [
        *("infinity", "-infinity", "9999-12-31 23:59:59.999001+00", "10000-01-01 00:00:00+00"),
        *("294246-12-31 23:59:59.999999+00", "0001-12-31 23:59:59.999999+00 BC"),
        *("0044-03-15 12:00:00+00 BC", "4714-11-24 00:00:00+00 BC", "0044-03-15 12:00:00+00 bc"),
        *("2023-05-01 10:00:00", "2023-05-01 10:00:00+01", "2023-05-01T10:00:00+00", "2023-05-01"),
        *("2023-05-01 10:00:00.50+00", "2023-05-01 10:00:00.0000001+00", "2023-05-01 24:00:00+00"),
        *(
            "2023-02-29 00:00:00+00",
            "now",
            "today",
            "epoch",
            "Infinity",
            "",
            "294277-01-01 00:00:00",
        ),
    ],
    "boolean": ["true", "false", "T", "1", "0", "", " t", "tt"],
    "jsonb": ["", "{", "nul", "'a'", '{"a": 1'],
    "double precision": [
        "1.0",
        "1e15",
        "1E+15",
        "1e+14",
        "inf",
        "nan",
        ".5",
        "0.10",
        "1e400",
        "",
        "+1",
    ],
    "bytea": [
        "",
        "00",
        "\\",
        "\\X00",
        "x00",
        "00\\x00",
        "\\x00\\x00",
        "\\x00\n",
        "\\x0,0",
        '\\x"',
    ],
}


@each_of("type_name", _TYPED)
def test_a_value_is_typed_or_kept_as_text(con: Connection, type_name: str) -> None:
    typed, raw = _TYPED[type_name], _RAW.get(type_name, [])
    expected = [(text, text, False) for text in typed] + [(None, text, True) for text in raw]
    cells = _hold(con, [*typed, *raw], Column("c", type_name))
    assert [(cell.typed, cell.whole, cell.raw) for cell in cells] == expected


def test_a_null_is_null_in_every_type_and_never_raw(con: Connection) -> None:
    null = [_Held(None, None, False, None)]
    assert [name for name in _TYPES if _hold(con, [None], Column("c", name)) != null] == []


def test_a_whole_amount_is_typed_where_the_column_says_so(con: Connection) -> None:
    texts = ["10", "9" * 38, "1.50", "9" * 39, "Infinity"]
    held = _hold(con, texts, Column("amount", "numeric"), "withdrawals")
    assert [cell.typed for cell in held] == ["10", "9" * 38, None, None, None]
    assert [cell.whole for cell in held] == texts


@each_of("name", ['quo"te', "it's", "select", "a b", "é", "_Raw "])
def test_a_column_may_have_any_name(con: Connection, name: str) -> None:
    held = _hold(con, ["5", "x", None], Column(name, "integer"))
    assert [(cell.typed, cell.whole) for cell in held] == [("5", "5"), (None, "x"), (None, None)]


def test_a_row_keeps_the_texts_of_several_columns(con: Connection) -> None:
    columns = (Column("a", "integer"), Column("b", "boolean"), Column("c", "text"))
    con.execute("create or replace temp table rows as select 'x' as a, 'y' as b, 'z' as c")
    kept = f"select _raw from ({typed_rows('t', columns, 'rows', exact=True)})"
    (raw,) = con.execute(kept).fetchall()
    assert raw == ({"a": "x", "b": "y"},)
    con.execute("create or replace temp table rows as select '1' as a, 't' as b, 'z' as c")
    (none,) = con.execute(kept).fetchall()
    assert none == (None,)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[str]:
    """Numbers of `digits` digits, the last `scale` of them decimals, as PostgreSQL prints them."""

    def text(number: int) -> str:
        figures = f"{abs(number):0{scale + 1}d}"
        point = len(figures) - scale
        sign, fraction = "-" if number < 0 else "", f".{figures[point:]}" if scale else ""
        return f"{sign}{figures[:point]}{fraction}"

    limit = 10**digits - 1
    return st.integers(-limit, limit).map(text)


def _postgresql_float(value: float) -> str:
    """float8out: the shortest digits, an exponent below -4 and from 15 on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, digits, power = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(power, int)
    exponent = power + len(digits) - 1 if any(digits) else 0
    if -4 <= exponent < 15:
        return f"{Decimal((sign, digits, power)):f}"
    text = "".join(map(str, digits))
    mantissa = text[0] + ("." + text[1:] if text[1:] else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _postgresql_time(year: int, month: int, day: int, clock: tuple[int, int, int, int]) -> str:
    hour, minute, second, micros = clock
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{fraction}+00"


def _postgresql_json(value: object) -> str:
    """jsonb_out: one space after colon and comma, keys by length and then by bytes."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        pairs = (f"{_postgresql_json(key)}: {_postgresql_json(value[key])}" for key in keys)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_postgresql_json(each) for each in value) + "]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value, ensure_ascii=False)


_JSON_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**40), 10**40),
        _JSON_TEXT,
        _decimals(30, 10).map(Decimal),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_JSON_TEXT, inner, max_size=3),
    max_leaves=6,
)
_MICROS = st.sampled_from([0, 500_000, 22_700, 1, 999_999, 100]) | st.integers(0, 999_999)
_CLOCK = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), _MICROS)
_YEARS = st.integers(1, 9999) | st.just(2023)
_CANONICAL: dict[str, st.SearchStrategy[str]] = {
    "smallint": st.integers(-(2**15), 2**15 - 1).map(str),
    "integer": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "hugeint": _decimals(38, 0),
    "numeric(1000,16)": _decimals(38, 16),
    "numeric": _decimals(60, 7),
    _TIMES: st.builds(_postgresql_time, _YEARS, st.integers(1, 12), st.integers(1, 28), _CLOCK),
    "boolean": st.sampled_from(["t", "f"]),
    "jsonb": _JSON.map(_postgresql_json),
    "double precision": st.floats().map(_postgresql_float),
    "bytea": st.binary(max_size=40).map(lambda data: "\\x" + data.hex()),
    "text": st.text(st.characters(codec="utf-8", exclude_characters="\0")),
}
_PIECES = [
    *(
        "0",
        "1",
        "9",
        "00",
        "999999999999999999",
        "-",
        "+",
        ".",
        "e",
        "E",
        "_",
        " ",
        "\t",
        "\n",
        ",",
    ),
    *(
        "infinity",
        "Infinity",
        "inf",
        "NaN",
        "nan",
        "t",
        "f",
        "true",
        "\\x",
        "ff",
        "F",
        "0x",
        "e+15",
    ),
    *("2023-05-01", "10:00:00", "+00", "+01", " BC", "(BC)", "T", "Z", "294247-01-10", "290000-12"),
    *(
        "{",
        "}",
        "[",
        "]",
        '"',
        ":",
        "null",
        "now",
        "epoch",
        "é",
        "😀",
        "\\",
        "'",
        "e400",
        "-infinity",
    ),
]
_NEAR = st.lists(st.sampled_from(_PIECES), max_size=7).map("".join)


@each_of("type_name", _CANONICAL)
def test_what_postgresql_prints_is_typed_and_printed_back(con: Connection, type_name: str) -> None:
    @settings(max_examples=10, deadline=None)
    @given(st.lists(_CANONICAL[type_name], min_size=1, max_size=40))
    def check(texts: list[str]) -> None:
        held = _hold(con, texts, Column("c", type_name))
        assert held == [_Held(text, text, False, text) for text in texts]

    check()


@each_of("type_name", _TYPES)
def test_any_text_at_all_comes_back_and_no_value_says_otherwise(
    con: Connection, type_name: str
) -> None:
    canonical = _CANONICAL.get(type_name, st.nothing())
    mixed = st.tuples(canonical, _NEAR, st.booleans()).map(
        lambda m: m[0] + m[1] if m[2] else m[1] + m[0]
    )
    anything = st.none() | canonical | _NEAR | mixed | _CANONICAL["text"]

    @settings(max_examples=8, deadline=None)
    @given(st.lists(anything, min_size=1, max_size=40))
    def check(texts: list[Cell]) -> None:
        for text, held in zip(texts, _hold(con, texts, Column("c", type_name)), strict=True):
            assert held.whole == text
            assert held.typed in (None, text)
            assert held.raw is (text is not None and held.typed is None)

    check()


@each_of("type_name", _AS_TEXT)
def test_what_is_held_as_text_is_never_raw(con: Connection, type_name: str) -> None:
    texts = ["", "1.50", "NaN", "{}", "\\x00", "STATUS_FROM_THE_FUTURE", "a,b\n"]
    held = _hold(con, texts, Column("c", type_name))
    assert held == [_Held(text, text, False, text) for text in texts]
