"""The registry of tables, and what a CSV header may say against it (spec 2.8.5, 2.8.7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from transforms.errors import SegmentError
from transforms.tables.registry import (
    HISTORY_TABLES,
    MAX_COLUMNS,
    UNKNOWN_TYPE,
    Column,
    TableSchema,
    known_table,
    known_tables,
    primary_key,
    schema_of,
)

_BLOCKS = ["vega_time", "height", "hash"]
_VERSIONS = st.integers(1, 130)


def _orders(change: Callable[[list[str]], list[str]] = list, version: int = 1) -> list[str]:
    known = known_table("orders", version)
    assert known is not None
    return change(list(known.schema.names))


@each_of("version", [1, 2, 6, 21, 69, 123])
def test_the_fifteen_tables_are_history_at_every_version(version: int) -> None:
    assert len(HISTORY_TABLES) == 15
    for table in HISTORY_TABLES:
        known = known_table(table, version)
        assert known is not None
        assert known.kind == "history"


@pytest.mark.parametrize(("version", "tables"), [(1, 52), (123, 89)])
def test_a_version_has_as_many_tables_as_its_dump(version: int, tables: int) -> None:
    assert len(known_tables(version)) == tables


@each_of(
    ("table", "version", "kind"),
    [
        ("oracle_data", 36, "current"),
        ("oracle_data", 41, "current"),
        ("oracle_data", 42, "history"),
        ("oracle_data_current", 20, "current"),
        ("oracle_data_current", 21, None),
        ("stop_orders", 9, None),
        ("stop_orders", 10, "current"),
        ("stop_orders", 22, "history"),
        ("no_such_table", 1, None),
    ],
)
def test_a_table_comes_changes_its_kind_and_goes(
    table: str, version: int, kind: str | None
) -> None:
    known = known_table(table, version)
    assert (known.kind if known else None) == kind
    assert (table in known_tables(version)) is (kind is not None)


@each_of(
    ("table", "column", "type_name"),
    [
        ("orders", "id", "bytea"),
        ("orders", "price", "hugeint"),
        ("orders", "size", "bigint"),
        ("positions", "realised_pnl", "numeric"),
        ("withdrawals", "amount", "numeric"),
        ("withdrawals", "ext", "jsonb"),
        ("rewards", "percent_of_total", "double precision"),
        ("liquidity_provisions", "fee", "numeric(1000,16)"),
        ("blocks", "vega_time", "timestamp with time zone"),
    ],
)
def test_a_header_gives_the_names_and_the_registry_their_types(
    table: str, column: str, type_name: str
) -> None:
    known = known_table(table, 1)
    assert known is not None
    schema = schema_of(table, 1, known.schema.names)
    assert schema == known.schema
    assert Column(column, type_name) in schema.columns


@each_of(
    ("header", "types"),
    [
        ([*_BLOCKS, "extra"], [("extra", UNKNOWN_TYPE)]),
        (["extra", *_BLOCKS], [("extra", UNKNOWN_TYPE)]),
        (["vega_time", "Extra_Column", "height", "hash"], [("Extra_Column", UNKNOWN_TYPE)]),
        (["vega_time", "hash"], [("hash", "bytea")]),
        (["height"], [("height", "bigint")]),
    ],
)
def test_a_header_may_add_columns_or_lack_some(
    header: list[str], types: list[tuple[str, str]]
) -> None:
    schema = schema_of("blocks", 1, header)
    assert list(schema.names) == header
    assert schema.header == (",".join(header) + "\n").encode()
    for name, type_name in types:
        assert Column(name, type_name) in schema.columns


def test_a_column_of_a_later_version_gets_the_type_it_has_there() -> None:
    later = known_table("orders", 123)
    assert later is not None
    fresh = next(c for c in later.schema.columns if c.name not in _orders())
    assert fresh.type != UNKNOWN_TYPE
    assert fresh in schema_of("orders", 1, [*_orders(), fresh.name]).columns


def test_a_table_unknown_to_the_registry_is_text() -> None:
    schema = schema_of("from_the_future", 1, ["a", "b"])
    assert {column.type for column in schema.columns} == {UNKNOWN_TYPE}
    assert primary_key("from_the_future", 1) == ()


_REFUSED: list[tuple[Callable[[list[str]], list[str]], str]] = [
    (lambda h: ["size_" if n == "size" else n for n in h], "lacks size and has size_ instead"),
    (lambda h: [*h[:-1], "extra"], "contradicts schema version 1"),
    (lambda h: [n.upper() for n in h], "contradicts schema version 1"),
    (lambda h: [h[1], h[0], *h[2:]], "reorders the columns of schema version 1"),
    (lambda h: [*h[1:], h[0]], "reorders the columns"),
    (lambda h: [*h, "price"], "repeats price"),
    (lambda h: [*h, "PRICE"], "repeats price"),
    (lambda h: [*h, "twice", "Twice"], "repeats twice"),
    (lambda h: [*h, ""], "a column without a name"),
    (lambda h: [*h, '"x""y"'], 'the name \'"x""y"\', not a plain one'),
    (lambda h: [*h, "a b"], "the name 'a b', not a plain one"),
    (lambda h: [*h, "é"], "the name 'é', not a plain one"),
    (lambda h: [*h, "extra\r"], r"the name 'extra\\r', not a plain one"),
    (lambda _: ["header_row"], "contradicts schema version 1"),
    (lambda _: [""], "a column without a name"),
]


@each_of(("change", "words"), _REFUSED)
def test_a_header_that_contradicts_its_version_is_refused(
    change: Callable[[list[str]], list[str]], words: str
) -> None:
    with pytest.raises(SegmentError, match=f"table orders: the header .*{words}"):
        schema_of("orders", 1, _orders(change))


@each_of("name", ["_segment", "_row", "_raw", "_private", "file_index"])
def test_a_header_may_not_use_the_names_of_our_own_columns(name: str) -> None:
    with pytest.raises(SegmentError, match=f"the name {name.upper()!r}, not a plain one"):
        schema_of("orders", 1, [*_orders(), name.upper()])


def test_a_header_has_no_more_columns_than_a_table_can_have() -> None:
    names = [f"c{number}" for number in range(MAX_COLUMNS + 1)]
    assert len(schema_of("another", 1, names[1:]).columns) == MAX_COLUMNS
    with pytest.raises(SegmentError, match="table another: the header has 1601 columns"):
        schema_of("another", 1, names)


@given(st.data())
def test_any_part_of_a_known_header_is_accepted_as_it_stands(data: st.DataObject) -> None:
    version = data.draw(_VERSIONS)
    known = known_table(data.draw(st.sampled_from(known_tables(version))), version)
    assert known is not None
    kept = data.draw(st.sets(st.sampled_from(known.schema.columns), min_size=1))
    columns = tuple(column for column in known.schema.columns if column in kept)
    schema = schema_of(known.schema.table, version, [column.name for column in columns])
    assert schema == TableSchema(known.schema.table, columns)


@each_of(
    ("changed", "same"),
    [
        ([("a", "text"), ("b", "bigint")], True),
        ([("b", "bigint"), ("a", "text")], False),
        ([("a", "text"), ("b", "integer")], False),
        ([("a", "text"), ("c", "bigint")], False),
        ([("a", "text")], False),
    ],
)
def test_a_fingerprint_is_shared_by_equal_columns_only(
    changed: list[tuple[str, str]], same: bool
) -> None:
    schema = TableSchema("orders", (Column("a", "text"), Column("b", "bigint")))
    other = TableSchema("trades", tuple(Column(*pair) for pair in changed))
    assert (schema.fingerprint == other.fingerprint) is same


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("blocks", ("vega_time",)),
        ("orders", ("vega_time", "seq_num")),
        ("withdrawals", ("id", "party_id", "vega_time")),
    ],
)
def test_a_primary_key_is_in_dump_order(table: str, key: tuple[str, ...]) -> None:
    assert primary_key(table, 1) == key
