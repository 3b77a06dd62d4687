"""Every query of docs/cookbook.md on the sample: in any time zone, and for the most important ones
against answers that are computed from the exported CSVs without the warehouse.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from pipelines.site.site import Site
from tests.cases import each_of
from tests.duckdb15_kit import asked_15
from transforms.block_range import BlockRange
from transforms.warehouse.warehouse_copy import write_copy

_PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
_QUERIES: dict[str, str] = dict(
    re.findall(r"^### (.*?)$.*?^```sql$\n(.*?)^```$", _PAGE.read_text("utf-8"), re.S | re.M)
)
_PARTY = "9cfa9a112314e7d3ea12e7d828b2971879d181a8b2e14b536e845ba3a47f178a"
_ONE = datetime(2023, 6, 1, 1, tzinfo=UTC)

# Of each query how many rows it gives on the sample, and its columns.
_EXPECTED = {
    "Which blocks were made in an hour?": (1, "first_block last_block blocks"),
    "Which block was the last at a time, and when was a block made?": (
        1,
        "block block_time next_block_time",
    ),
    "How long did blocks take, by hour?": (3, "hour blocks mean_seconds longest_seconds"),
    "What did every account hold as of a block?": (
        155,
        "party_id asset type_name market balance unfit",
    ),
    "Which positions were open at a time?": (72, "code party_id size"),
    "What is the latest state of every withdrawal?": (
        99,
        "id party_id status created_timestamp withdrawn_timestamp",
    ),
    "Which orders were open at a time?": (61, "code side_name id party_id price remaining"),
    "What did a market's terms say as of a block?": (
        3,
        "id state trading_mode maker_fee vega_time",
    ),
    "What does a party hold of each asset?": (3, "asset total accounts unfit"),
    "Who holds most of an asset?": (10, "party_id total unfit"),
    "How did a party's general account move?": (79, "height vega_time balance"),
    "What came in and went out, by day and asset?": (3, "day symbol deposited withdrawn unfit"),
    "Between which kinds of accounts did money flow?": (
        28,
        "symbol type from_account to_account movements amount unfit",
    ),
    "What did a party's accounts receive and pay, entry by entry?": (
        86,
        "ledger_entry_time type type_name market asset amount",
    ),
    "What rewards were paid, by epoch and kind?": (
        46,
        "epoch_id reward_type symbol parties amount",
    ),
    "Which markets are there, and in which units?": (
        3,
        "code state trading_mode asset decimal_places position_decimal_places id",
    ),
    "What was traded, by market and day?": (3, "code day trades volume notional notional_in"),
    "What were the prices, as candles of five minutes?": (
        26,
        "code start open high low close volume",
    ),
    "How wide was the spread, and what was the mark price, over time?": (
        677,
        "height vega_time mark_price spread open_interest market_trading_mode",
    ),
    "Which fees were paid, by market and day?": (
        3,
        "code day asset maker_fees infrastructure_fees liquidity_fees",
    ),
    "What did a party trade?": (162, "vega_time code action price size aggressor_name id"),
    "Which trades filled an order?": (36, "vega_time id price size filled"),
    "What became of an order?": (
        37,
        "vega_time version status_name size remaining price reason_name updated_at",
    ),
    "How did orders end, and why were they refused?": (9, "status_name reason_name orders"),
    "How did a party's position develop?": (67, "vega_time code size realised_pnl unrealised_pnl"),
    "Whose margin is nearest to being closed out?": (
        10,
        "market party_id margin maintenance_margin ratio",
    ),
    "Who provides liquidity to each market, and for which fee?": (
        6,
        "code party_id status fee commitment asset",
    ),
    "What did an oracle's signer broadcast?": (70, "vega_time Name Value matched_spec_ids"),
    "What do the network's parameters say, and which were changed?": (
        22,
        "key value values_ever since",
    ),
    "When did epochs begin and end?": (24, "epoch began ended first_block"),
    "How much stake was delegated to each validator, by epoch?": (
        120,
        "epoch_id node_id parties stake",
    ),
    "How were proposals voted on?": (3, "id state value votes tokens"),
    "How many rows has each table, from how many segments?": (15, "table_name rows segments"),
}

Rows = list[tuple[Any, ...]]
Csv = Callable[[str], pl.DataFrame]


@pytest.fixture(scope="module")
def con(sample_site: Site) -> Iterator[duckdb.DuckDBPyConnection]:
    with sample_site.warehouse.connect():
        pass  # the file of views is there, and new
    with duckdb.connect(sample_site.warehouse.current, read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def csv(sample_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Csv:
    """A table's exported CSVs as one frame of texts, those of all schema versions together."""
    folder = tmp_path_factory.mktemp("csvs")

    @cache
    def read(table: str) -> pl.DataFrame:
        export = sample_site.export(table, 1, 7000, None, pytest.fail)
        export.layout.write(folder / "export.zip")
        with zipfile.ZipFile(folder / "export.zip") as archive:
            frames = [
                pl.read_csv(archive.read(one), infer_schema=False) for one in archive.namelist()
            ]
        joined = pl.concat(frames, how="diagonal")
        if "vega_time" in joined.columns:
            joined = joined.with_columns(at=_time("vega_time"))
        return joined

    return read


def _time(column: str) -> pl.Expr:
    return pl.col(column).str.to_datetime("%Y-%m-%d %H:%M:%S%.f+00", time_zone="UTC")


def _ask(con: duckdb.DuckDBPyConnection, title: str, zone: str = "America/New_York") -> Rows:
    con.execute(f"set timezone = '{zone}'")
    return con.execute(_QUERIES[title]).fetchall()


def _ids(column: str) -> pl.Expr:
    return pl.col(column).str.strip_prefix("\\x")


def _latest(frame: pl.DataFrame, *key: str) -> Iterator[dict[str, Any]]:
    """The last row of each key, in the order of the file."""
    yield from frame.unique(key, keep="last", maintain_order=True).iter_rows(named=True)


def test_the_cookbook_has_at_least_twenty_questions_and_the_test_knows_all() -> None:
    assert len(_QUERIES) >= 20
    assert set(_QUERIES) == set(_EXPECTED)
    assert _PAGE.read_text("utf-8").count("```sql") == len(_QUERIES)


@each_of("title", _QUERIES)
def test_a_query_gives_its_rows_in_any_time_zone(
    con: duckdb.DuckDBPyConnection, title: str
) -> None:
    here, there = (_ask(con, title, zone) for zone in ("America/New_York", "Asia/Kolkata"))
    assert here == there
    count, names = _EXPECTED[title]
    assert ([column[0] for column in con.description or ()], len(here)) == (names.split(), count)
    for place, name in enumerate(names.split()):
        assert name == "market" or any(row[place] is not None for row in here), name


@pytest.fixture(scope="module")
def copy(sample_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the whole sample."""
    path = tmp_path_factory.mktemp("copy") / "copy.duckdb"
    write_copy(sample_site.warehouse, path, BlockRange(1, 7000), ())
    return path


def test_every_query_gives_the_same_over_a_copy(con: duckdb.DuckDBPyConnection, copy: Path) -> None:
    with duckdb.connect(copy, read_only=True) as alone:
        for title in _QUERIES:
            assert _ask(alone, title) == _ask(con, title), title


def test_the_duckdb_of_the_release_before_counts_the_same_rows(
    con: duckdb.DuckDBPyConnection, sample_site: Site
) -> None:
    counts = ", ".join(
        f"(select count(*) from ({query.strip().rstrip(';')}))" for query in _QUERIES.values()
    )
    found = asked_15(
        sample_site.warehouse.current, f"set timezone = 'Asia/Kolkata'; select {counts}"
    )
    assert found.strip().split(",") == [str(_EXPECTED[title][0]) for title in _QUERIES]


@pytest.fixture(scope="module")
def markets(con: duckdb.DuckDBPyConnection, csv: Csv) -> dict[str, dict[str, Any]]:
    """Id of each market to code, decimals and those of its settlement asset, from its JSON."""
    decimals = dict(con.execute("select id, decimals::int from assets").fetchall())
    found = {}
    for row in _latest(csv("markets"), "id"):
        instrument = json.loads(row["tradable_instrument"])["instrument"]
        found[row["id"].removeprefix("\\x")] = {
            "code": instrument["code"],
            "price": int(row["decimal_places"]),
            "size": int(row["position_decimal_places"]),
            "asset": decimals[instrument["future"]["settlementAsset"]],
        }
    return found


def _scaled(whole: int, decimals: int) -> Decimal:
    return Decimal(whole).scaleb(-decimals)


def test_volume_and_notional_are_those_of_the_trades(
    con: duckdb.DuckDBPyConnection, csv: Csv, markets: dict[str, dict[str, Any]]
) -> None:
    expected = {}
    for id_, market in markets.items():
        mine = csv("trades").filter(_ids("market_id") == id_)
        sizes, prices = (list(map(int, mine[name])) for name in ("size", "price"))
        notional = sum(size * price for size, price in zip(sizes, prices, strict=True))
        expected[market["code"]] = (
            len(sizes),
            _scaled(sum(sizes), market["size"]),
            _scaled(notional, market["price"] + market["size"]),
        )
        assert mine["at"].dt.date().n_unique() == 1
    rows = _ask(con, "What was traded, by market and day?")
    assert {row[0]: row[2:5] for row in rows} == expected


def test_fees_are_those_of_buyers_and_sellers(
    con: duckdb.DuckDBPyConnection, csv: Csv, markets: dict[str, dict[str, Any]]
) -> None:
    expected = {}
    for id_, market in markets.items():
        mine = csv("trades").filter(_ids("market_id") == id_)
        expected[market["code"]] = tuple(
            _scaled(
                sum(int(v) for s in ("buyer", "seller") for v in mine[f"{s}_{kind}_fee"]), places
            )
            for kind in ("maker", "infrastructure", "liquidity")
            for places in [market["asset"]]
        )
    rows = _ask(con, "Which fees were paid, by market and day?")
    assert {row[0]: row[3:] for row in rows} == expected


def test_balances_as_of_a_block_are_the_latest_up_to_then(
    con: duckdb.DuckDBPyConnection, csv: Csv
) -> None:
    (when,) = csv("blocks").filter(pl.col("height") == "2000")["at"]
    decimals = dict(
        con.execute(
            "select accounts.id, decimals::int from accounts join assets on assets.id = asset_id"
        ).fetchall()
    )
    expected = sorted(
        _scaled(int(row["balance"]), decimals[row["account_id"].removeprefix("\\x")])
        for row in _latest(csv("balances").filter(pl.col("at") <= when), "account_id")
        if int(row["balance"]) > 0
    )
    rows = _ask(con, "What did every account hold as of a block?")
    assert sorted(row[4] for row in rows if not row[5]) == expected[:-1]
    assert [row[4] for row in rows if row[5]] == [None]  # it has more than 38 digits


def test_open_orders_are_those_that_were_active_last(
    con: duckdb.DuckDBPyConnection, csv: Csv, markets: dict[str, dict[str, Any]]
) -> None:
    before = csv("orders").filter(pl.col("at") <= _ONE)
    expected = {
        row["id"].removeprefix("\\x"): (
            _scaled(int(row["price"]), market["price"]),
            _scaled(int(row["remaining"]), market["size"]),
        )
        for row in _latest(before, "id")
        for market in [markets[row["market_id"].removeprefix("\\x")]]
        if row["status"] in ("1", "8")
    }
    rows = _ask(con, "Which orders were open at a time?")
    assert {row[2]: row[4:] for row in rows} == expected


def test_open_positions_are_the_latest_up_to_then(
    con: duckdb.DuckDBPyConnection, csv: Csv, markets: dict[str, dict[str, Any]]
) -> None:
    before = csv("positions").filter(pl.col("at") <= _ONE)
    expected = {
        (market["code"], row["party_id"].removeprefix("\\x")): _scaled(
            int(row["open_volume"]), market["size"]
        )
        for row in _latest(before, "party_id", "market_id")
        for market in [markets[row["market_id"].removeprefix("\\x")]]
        if row["open_volume"] != "0"
    }
    rows = _ask(con, "Which positions were open at a time?")
    assert {(row[0], row[1]): row[2] for row in rows} == expected


def test_candles_hold_every_trade_once(
    con: duckdb.DuckDBPyConnection, csv: Csv, markets: dict[str, dict[str, Any]]
) -> None:
    ((id_, market),) = [item for item in markets.items() if item[1]["code"] == "BTC/USD"]
    mine = csv("trades").filter(_ids("market_id") == id_).sort("synthetic_time")
    expected: dict[datetime, list[tuple[int, int]]] = {}
    for at, price, size in mine.select("at", "price", "size").iter_rows():
        start = at - timedelta(
            minutes=at.minute % 5, seconds=at.second, microseconds=at.microsecond
        )
        expected.setdefault(start.replace(tzinfo=None), []).append((int(price), int(size)))
    rows = _ask(con, "What were the prices, as candles of five minutes?")
    assert {row[1]: row[2:] for row in rows} == {
        start: (
            *(
                _scaled(price, market["price"])
                for prices in [[price for price, _ in trades]]
                for price in (prices[0], max(prices), min(prices), prices[-1])
            ),
            _scaled(sum(size for _, size in trades), market["size"]),
        )
        for start, trades in expected.items()
    }


def test_what_came_in_is_what_was_credited(con: duckdb.DuckDBPyConnection, csv: Csv) -> None:
    assets = {
        id_: (symbol, decimals)
        for id_, symbol, decimals in con.execute(
            "select id, symbol, decimals from assets"
        ).fetchall()
    }
    expected: dict[str, list[Decimal | int]] = {}
    for place, table in enumerate(("deposits", "withdrawals")):
        for row in csv(table).iter_rows(named=True):
            symbol, decimals = assets[row["asset"].removeprefix("\\x")]
            sums = expected.setdefault(symbol, [Decimal(0), Decimal(0), 0])
            if row["status"] == "STATUS_FINALIZED" and len(row["amount"]) > 38:
                sums[2] += 1
            elif row["status"] == "STATUS_FINALIZED":
                sums[place] += _scaled(int(row["amount"]), decimals)
    rows = _ask(con, "What came in and went out, by day and asset?")
    assert {row[1]: [*row[2:]] for row in rows} == expected


def test_a_party_holds_what_its_ledger_says(con: duckdb.DuckDBPyConnection) -> None:
    """Current state against history: all entries of its accounts add up to their balances."""
    held = _ask(con, "What does a party hold of each asset?")
    entries = _QUERIES["What did a party's accounts receive and pay, entry by entry?"]
    entries = re.sub(r"\n  and ledger.ledger_entry_time < .*", "", entries).rstrip().rstrip(";")
    sums = con.execute(f"select asset, sum(amount) from ({entries}) group by asset order by asset")
    assert sums.fetchall() == [row[:2] for row in held]
    assert f"'{_PARTY}'" in entries


def test_an_order_is_filled_by_its_trades(con: duckdb.DuckDBPyConnection) -> None:
    filled = _ask(con, "Which trades filled an order?")[-1][-1]
    states = _ask(con, "What became of an order?")
    assert filled == states[-1][3] - states[-1][4]
