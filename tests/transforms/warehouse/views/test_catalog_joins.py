"""The catalog's macros and views for joins, on small tables."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pytest

from tests.duckdb15_kit import asked
from tests.transforms.warehouse_kit import Held
from transforms.warehouse.views.derived_views import joins_of

_TABLES = """
    create schema strata;
    create table blocks (height bigint, vega_time timestamptz);
    insert into blocks values (1, '2023-06-01 00:30:00+00'), (2, '2023-06-01 01:00:00.5+00');
    create table assets (
        id varchar, symbol varchar, name varchar, decimals integer, vega_time timestamptz);
    insert into assets values
        ('aa', 'OLD', 'Old', 6, '2023-06-01 00:00:00+00'),
        ('aa', 'NEW', 'New', 6, '2023-06-02 00:00:00+00'),
        ('bb', 'GOV', 'Governance', 18, '2023-06-01 00:00:00+00');
    create table markets_current (
        id varchar, tradable_instrument json, decimal_places integer,
        position_decimal_places integer, state varchar, trading_mode varchar);
    insert into markets_current values
        ('f1', '{"instrument": {"code": "F", "future": {"settlementAsset": "aa"}}}', 2, 3, '', ''),
        ('f2', '{"instrument": {"code": "P", "perpetual": {"settlementAsset": "bb"}}}',
         2, 3, '', ''),
        ('f3', '{"instrument": {"code": "S", "spot": {"baseAsset": "bb", "quoteAsset": "aa"}}}',
         2, 3, '', ''),
        ('f4', null, 2, 3, '', '');
    create table accounts (
        id varchar, party_id varchar, asset_id varchar, market_id varchar, type integer,
        type_name varchar);
    insert into accounts values
        ('c1', 'p', 'aa', '', 4, 'ACCOUNT_TYPE_GENERAL'),
        ('c2', 'p', 'aa', 'f1', 3, 'ACCOUNT_TYPE_MARGIN'),
        ('c3', 'p', 'zz', '', 4, 'ACCOUNT_TYPE_GENERAL');
"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("set timezone = 'America/New_York'")
        opened.execute(_TABLES)
        columns: dict[str, set[str]] = {}
        for table, column in opened.execute(
            "select table_name, column_name from duckdb_columns() where not internal"
        ).fetchall():
            columns.setdefault(table, set()).add(column)
        for statement in joins_of(columns):
            opened.execute(statement)
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        "'2023-06-01 01:00'",
        "'2023-06-01 01:00:00'",
        "'2023-06-01T01:00:00Z'",
        "'2023-06-01 03:00:00+02:00'",
        "'2023-05-31 21:00:00-04'",
        "'2023-05-31 21:00 America/New_York'",
        "'2023-06-01T01:00:00 utc'",
        "'2023-06-01 06:00:00 Etc/GMT-5'",
        "timestamptz '2023-06-01 01:00:00+00'",
        "timestamp '2023-06-01 01:00:00'",
    ],
)
def test_a_time_is_in_utc_whatever_the_session_is(
    con: duckdb.DuckDBPyConnection, text: str
) -> None:
    (same,) = con.execute(
        f"select strata.moment({text}) = timestamptz '2023-06-01 01:00:00+00'"
    ).fetchall()
    assert same == (True,)
    assert con.execute(f"select strata.block_at({text})").fetchall() == [(1,)]


def test_a_date_is_its_beginning_in_utc(con: duckdb.DuckDBPyConnection) -> None:
    for date in ("'2023-06-01'", "date '2023-06-01'"):
        (found,) = con.execute(f"select epoch(strata.moment({date}))").fetchall()
        assert found == (1685577600.0,)


def test_blocks_and_times_lead_to_each_other(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute(
        "select strata.block_at('2023-06-01 00:29'), strata.block_at('2024-01-01'), "
        "strata.block_at(strata.time_of(2)), strata.time_of(3)"
    )
    assert found.fetchall() == [(None, 2, 2, None)]


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        ("2000000000000000000000123::decimal(38,0)", 18, "2000000.000000000000000123"),
        ("99999999999999999999999999999999999999", 18, "99999999999999999999.999999999999999999"),
        ("(-1234567)::bigint", 6, "-1.234567"),
        ("7::smallint", 0, "7"),
        ("5::bigint", -2, "500"),
        ("null::decimal(38,0)", 6, None),
    ],
)
def test_an_amount_is_exact(
    con: duckdb.DuckDBPyConnection, value: str, decimals: int, expected: str | None
) -> None:
    (found,) = con.execute(f"select strata.amount({value}, {decimals})").fetchone() or ()
    assert found == (None if expected is None else Decimal(expected))


def test_an_amount_that_does_not_fit_is_an_error_and_never_rounded(
    con: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(duckdb.Error, match="more than 18 decimals"):
        con.execute("select strata.amount(1, 19)").fetchall()
    with pytest.raises(duckdb.Error, match="Overflow"):
        con.execute(f"select strata.amount({10**30}::decimal(38,0), 0)").fetchall()


@pytest.mark.parametrize("of_15", [False, True], ids=["2.0", "1.5"])
def test_every_macro_gives_null_for_null_in_any_argument(held: Held, of_15: bool) -> None:
    calls = [
        f"{macro}({arguments})"
        for macro, arguments in (
            ("utc", "null"),
            ("utc", "null::timestamptz"),
            ("strata.moment", "null"),
            ("strata.amount", "1, null"),
            ("strata.amount", "1::decimal(38,0), null::integer"),
            ("strata.amount", "null, 5"),
            ("strata.amount", "null::decimal(38,0), 19"),
            ("strata.amount", "null, null"),
            ("strata.block_at", "null"),
            ("strata.time_of", "null"),
        )
    ]
    assert asked(held.warehouse.current, calls, of_15=of_15) == [None] * len(calls)


def test_each_asset_and_market_is_one_row(con: duckdb.DuckDBPyConnection) -> None:
    assets = con.execute("select id, symbol, decimals from strata.assets order by id")
    assert assets.fetchall() == [("aa", "NEW", 6), ("bb", "GOV", 18)]
    markets = con.execute("select code, asset, asset_decimals from strata.markets order by id")
    assert markets.fetchall() == [
        ("F", "NEW", 6),
        ("P", "GOV", 18),
        ("S", "NEW", 6),
        (None, None, None),
    ]


def test_accounts_without_a_market_or_with_an_unknown_asset_stay(
    con: duckdb.DuckDBPyConnection,
) -> None:
    accounts = con.execute("select id, asset, market from strata.accounts order by id")
    assert accounts.fetchall() == [("c1", "NEW", None), ("c2", "NEW", "F"), ("c3", None, None)]


def test_what_lacks_its_tables_is_left_out() -> None:
    statements = "\n".join(joins_of({"assets": {"id"}, "blocks": {"height", "vega_time"}}))
    assert "strata.block_at" in statements
    assert "strata.amount" in statements
    assert "strata.assets" not in statements
    assert "strata.accounts" not in statements
