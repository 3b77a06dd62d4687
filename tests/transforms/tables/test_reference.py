"""The schema reference: whole over all versions, and at one with the meanings."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from importlib.resources import files

from tests.cases import each_of
from transforms.tables.reference import ColumnReference, Versions, schema_reference
from transforms.tables.registry import HISTORY_TABLES, known_table, tables_ever

_REFERENCE = schema_reference()
_FACTS = json.loads(files("transforms.tables").joinpath("relations.json").read_bytes())
_NEWEST = 123
_ASSET_UNITS = ("asset", "settlement asset", "staking asset")


def _column(table: str, name: str) -> ColumnReference:
    return next(column for column in _REFERENCE[table].columns if column.name == name)


def test_it_has_every_table_and_every_column_of_every_version() -> None:
    assert set(_REFERENCE) == set(tables_ever())
    for version in range(1, _NEWEST + 1):
        for table, reference in _REFERENCE.items():
            known = known_table(table, version)
            there = {
                column.name
                for column in reference.columns
                for span in column.versions
                if span.first <= version <= (span.last or version)
            }
            assert there == (set(known.schema.names) if known else set()), f"{table} {version}"
            kinds = [
                kind
                for span, kind in reference.kinds
                if span.first <= version <= (span.last or version)
            ]
            assert kinds == ([known.kind] if known else []), f"{table} {version}"


def _columns() -> Iterator[tuple[str, ColumnReference]]:
    for table, reference in _REFERENCE.items():
        for column in reference.columns:
            yield table, column


def test_every_table_and_column_has_a_meaning() -> None:
    texts = {table: reference.meaning for table, reference in _REFERENCE.items()}
    texts |= {f"{table}.{column.name}": column.meaning for table, column in _columns()}
    wrong = [
        name
        for name, text in texts.items()
        if not text.endswith(".") or "no known schema version" in text
    ]
    assert wrong == []


def test_units_say_what_the_meanings_say() -> None:
    wrong = []
    for table, column in _columns():
        text, unit = column.meaning, column.unit
        if column.source_type == "jsonb" or (table, column.name) in _SCALES:
            continue
        expected: Container[str | None] = (unit,)
        if "settlement asset" in text:
            expected = ("settlement asset",)
        elif "smallest unit" in text:
            expected = _ASSET_UNITS
        elif "10^-" in text:
            expected = ("size",) if "10^-position_decimal_places" in text else ("price",)
        if unit not in expected:
            wrong.append((table, column.name, unit, text))
    assert wrong == []


# They are the decimals, not in them.
_SCALES = {
    (table, column)
    for table in ("markets", "markets_current")
    for column in ("decimal_places", "position_decimal_places", "tradable_instrument")
}


def test_what_joins_has_the_same_kind_of_value_as_its_target() -> None:
    ids = {"bytea", "bytea[]", "text", "text[]"}
    numbers = {"bigint", "integer", "smallint"}
    wrong = []
    for table, column in _columns():
        if column.target:
            other, name = column.target.split(".")
            kinds = {column.source_type, _column(other, name).source_type}
            is_alike = kinds <= ids or kinds <= numbers or len(kinds) == 1
            if not is_alike:
                wrong.append((table, column.name, column.target, kinds))
    assert wrong == []


def test_no_fact_is_left_over_for_what_never_was() -> None:
    names = {column.name for table in _REFERENCE.values() for column in table.columns}
    for kind in ("units", "joins"):
        assert set(_FACTS[kind]["names"]) <= names
        for table, columns in _FACTS[kind]["columns"].items():
            assert set(columns) <= {column.name for column in _REFERENCE[table].columns}
    for table, identity in _FACTS["identities"].items():
        assert set(identity) <= {column.name for column in _REFERENCE[table].columns}
        assert tuple(identity) != _REFERENCE[table].key


def test_every_exported_table_is_marked() -> None:
    assert {table for table, one in _REFERENCE.items() if one.exported} == set(HISTORY_TABLES)


@each_of(
    ("table", "column", "unit", "target"),
    [
        ("orders", "price", "price", None),
        ("orders_live", "size", "size", None),
        ("market_data", "mark_price", "price", None),
        ("balances", "balance", "asset", None),
        ("current_balances", "account_id", None, "accounts.id"),
        ("withdrawals", "amount", "asset", None),
        ("rewards", "party_id", None, "parties.id"),
        ("margin_levels", "search_level", "settlement asset", None),
        ("trades", "buy_order", None, "orders.id"),
        ("ledger", "account_from_id", None, "accounts.id"),
        ("blocks", "vega_time", None, None),
        ("positions", "vega_time", None, "blocks.vega_time"),
    ],
)
def test_the_facts_that_people_ask_for(
    table: str, column: str, unit: str | None, target: str | None
) -> None:
    found = _column(table, column)
    assert (found.unit, found.target) == (unit, target)


def test_a_column_that_came_and_went_says_when() -> None:
    assert _column("orders", "initial_peak_size").versions == (Versions(2, 5),)
    assert str(Versions(2, 5)) == "2 to 5"
    assert str(*_column("orders", "peak_size").versions) == "6 and later"


def test_a_table_that_became_history_says_when() -> None:
    assert _REFERENCE["oracle_data"].kinds == (
        (Versions(1, 41), "current"),
        (Versions(42), "history"),
    )


def test_enums_name_their_values() -> None:
    assert (1, "SIDE_BUY") in _column("orders", "side").values
    assert (None, "STATUS_FINALIZED") in _column("deposits", "status").values
