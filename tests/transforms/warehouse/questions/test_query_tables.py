"""What a query is seen to read, before anything is fetched to answer it."""

from __future__ import annotations

import pytest

from transforms.warehouse.questions.queries import query_tables


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select 1", []),
        ("values (1)", []),
        ("from Trades;", ["trades"]),
        ('select * from main."Orders" o, exact.trades as t', ["orders", "trades"]),
        ("select a in (from b select c) from d where exists (from e)", ["b", "d", "e"]),
        ("from a union all from b order by (select max(x) from c)", ["a", "b", "c"]),
        ("with w as (from a) select * from w, range(3), unnest([1])", ["a", "w"]),
        ("from (from (values (1)) v join a on (select true from b))", ["a", "b"]),
    ],
)
def test_each_table_that_a_query_reads_is_named(query: str, names: list[str]) -> None:
    tables = query_tables(query)
    assert tables is not None
    assert sorted(tables.names) == names
    assert tables.own == {"w"}.intersection(names)


@pytest.mark.parametrize(
    "query",
    [
        "select",
        "from a; drop table b",
        "describe a",
        "show tables",
        "select * from a, (show tables)",
        "pivot a on b using count(*)",
        "explain from a",
        "pragma table_info('a')",
        "from a, duckdb_tables()",
        "from a where exists (from query('from b'))",
        "from strata.segments",
        "from current.main.a",
        "from information_schema.tables, a",
        "from read_parquet('x.parquet')",
    ],
)
def test_what_may_read_others_is_not_told(query: str) -> None:
    assert query_tables(query) is None
