"""The meanings shown to analysts: complete over all schema versions, honest about the unknown."""

from __future__ import annotations

import json
from importlib.resources import files

from tests.cases import each_of
from transforms.tables.column_facts import column_meaning, table_meaning
from transforms.tables.registry import HISTORY_TABLES, known_table, known_tables

_TEXTS = json.loads(files("transforms.tables").joinpath("meanings.json").read_text("utf-8"))
_VERSIONS = range(1, 124)


def _columns_ever(table: str) -> set[str]:
    names: set[str] = set()
    for version in _VERSIONS:
        known = known_table(table, version)
        names |= set(known.schema.names) if known else set()
    return names


_TABLES_EVER = sorted({table for version in _VERSIONS for table in known_tables(version)})


def test_every_column_of_an_exported_table_has_a_text_of_its_own_and_no_other_has() -> None:
    wrong = {}
    for table in HISTORY_TABLES:
        own, columns = set(_TEXTS["columns"][table]), _columns_ever(table)
        if names := (columns - set(_TEXTS["names"]) - own) | (own - columns):
            wrong[table] = names
    assert wrong == {}


def test_every_table_and_column_ever_has_a_sentence() -> None:
    wrong = [table for table in _TABLES_EVER if table not in _TEXTS["tables"]]
    for table in _TABLES_EVER:
        columns = _columns_ever(table)
        for text in (table_meaning(table), *(column_meaning(table, name) for name in columns)):
            begins = text[0].isupper() or text[0].isdigit() or text.startswith("vega_time")
            if not (begins and text.endswith(".")) or "no known schema version" in text:
                wrong.append(f"{table}: {text}")
    assert wrong == []


def test_no_text_is_left_over_for_a_table_that_never_was() -> None:
    assert set(_TEXTS["tables"]) == set(_TABLES_EVER)
    assert set(_TEXTS["columns"]) | set(_TEXTS["twins"]) <= set(_TABLES_EVER)
    assert set(_TEXTS["names"]) <= {c for table in _TABLES_EVER for c in _columns_ever(table)}


@each_of(
    ("table", "column", "expected"),
    [
        ("orders", "price", "10^-decimal_places of the market"),
        ("orders", "size", "10^-position_decimal_places"),
        ("orders", "expires_at", "1970-01-01"),
        ("orders", "peak_size", "NULL"),
        ("balances", "balance", "asset's smallest unit"),
        ("market_data", "auction_end", "nanoseconds"),
        ("rewards", "percent_of_total", "per cent"),
        ("ledger", "ledger_entry_time", "microseconds"),
        ("withdrawals", "foreign_tx_hash", "empty string"),
        ("positions", "open_volume", "negative when short"),
    ],
)
def test_a_meaning_names_the_unit_and_what_stands_for_not_set(
    table: str, column: str, expected: str
) -> None:
    assert expected in column_meaning(table, column)


def test_a_table_of_latest_rows_shares_the_meanings_of_its_history() -> None:
    assert column_meaning("orders_live", "price") == column_meaning("orders", "price")
    assert column_meaning("current_balances", "balance") == column_meaning("balances", "balance")


def test_a_column_known_from_nowhere_is_called_so() -> None:
    assert column_meaning("orders", "from_the_future") == (
        "From the future: a column that no known schema version has, kept as text."
    )
    assert table_meaning("from_the_future") == "The network's table from_the_future."
