"""What a query is seen to read, before anything is fetched to answer it."""

from __future__ import annotations

import pytest

from transforms.warehouse.questions.queries import query_tables

_TABLES = ("blocks", "orders", "trades", "Odd")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select 1", []),
        ("from Trades;", ["trades"]),
        ('select * from main."Orders" o, exact.trades as t', ["orders", "trades"]),
        ("select 1 in (from blocks) from odd", ["Odd", "blocks"]),
        ("with orders as (from trades) from orders", ["orders", "trades"]),
        ("from current.main.blocks", ["blocks"]),
        ("pivot orders on side using count(*)", ["orders"]),
        ("select strata.amount(size, 1) from trades", ["trades"]),
    ],
)
def test_each_table_that_a_query_reads_is_named(query: str, names: list[str]) -> None:
    tables = query_tables(query, _TABLES)
    assert tables is not None
    assert sorted(tables) == names


@pytest.mark.parametrize(
    "query",
    [
        "describe orders",
        "SHOW tables",
        "select * from orders, (show tables)",
        "from orders, duckdb_tables()",
        "from query('from ' || 'blocks')",
        "from strata.segments",
        "select strata.block_at('2023-01-01') from orders",
        "from information_schema.tables, orders",
        "from pg_catalog.pg_tables",
        "from sqlite_master",
    ],
)
def test_what_may_read_others_is_not_told(query: str) -> None:
    assert query_tables(query, _TABLES) is None
