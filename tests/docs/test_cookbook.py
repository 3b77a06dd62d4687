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
from tests.docs.cookbook import PAGE, archive_queries, page, queries

_QUERIES = queries()
_PARTY = "9cfa9a112314e7d3ea12e7d828b2971879d181a8b2e14b536e845ba3a47f178a"
_ONE = datetime(2023, 6, 1, 1, tzinfo=UTC)

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
        export = sample_site.export(table, 1, 7000, pytest.fail)
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


def test_every_query_of_the_page_stands_with_its_result(home_site: Site) -> None:
    """Also one that is written otherwise, which would be tested by nothing here."""
    text = PAGE.read_text("utf-8")
    assert text.count("```sql") == len(_QUERIES) + len(archive_queries()) >= 40
    assert text == page(home_site), "run make docs"


@each_of("title", _QUERIES)
def test_a_query_gives_its_rows_in_any_time_zone(
    con: duckdb.DuckDBPyConnection, title: str
) -> None:
    here, there = (_ask(con, title, zone) for zone in ("America/New_York", "Asia/Kolkata"))
    assert here == there
    names = [column[0] for column in con.description or ()]
    for place, name in enumerate(names):
        is_empty = not here or name == "market"
        assert is_empty or any(row[place] is not None for row in here), name


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


def test_a_partys_statement_adds_up_and_has_every_entry(con: duckdb.DuckDBPyConnection) -> None:
    rows = _ask(con, "What is a party's statement, with opening and closing balances?")
    accounts: dict[tuple[str, str], Rows] = {}
    for row in rows:
        accounts.setdefault(row[:2], []).append(row[2:])
    assert len(accounts) == 3
    for lines in accounts.values():
        assert [lines[0][1], lines[-1][1]] == ["opening balance", "closing balance"]
        assert lines[-1][-1] == 0
    count = con.execute(
        "select count(*) from ledger join strata.accounts as a on a.id in (account_from_id, "
        f"account_to_id) where a.party_id = '{_PARTY}' and a.asset = 'USDT' "
        "and utc(ledger_entry_time) between '2023-06-01 00:30' and '2023-06-01 00:45'"
    ).fetchone()
    assert count == (len(rows) - 2 * len(accounts),)


def test_maker_fees_are_those_of_the_trades_rounded_up(con: duckdb.DuckDBPyConnection) -> None:
    fees = {row[0]: row[3] for row in _ask(con, "Which fees were paid, by market and day?")}
    rows = _ask(con, "Do the maker fees follow from the trades?")
    assert {row[0]: row[3] for row in rows} == fees
    for _, factor, trades, paid, recomputed, rounded_up in rows:
        assert factor == Decimal("0.0002")
        assert 0 <= rounded_up == paid - recomputed < trades * Decimal("1e-6")


_HAPPENED = """
    insert into trades (vega_time, market_id, price, size, buyer, seller, type)
    select '2023-06-01 01:30:00+00', id, 2650000, 1500, '03', 'aa', 3
    from strata.markets where code = 'BTC/USD';
    insert into accounts (id, party_id, asset_id, market_id, type, type_name)
    select 'pool', '03', asset_id, id, 1, 'ACCOUNT_TYPE_INSURANCE'
    from strata.markets where code = 'BTC/USD';
    insert into ledger (ledger_entry_time, account_from_id, account_to_id, quantity, type)
    select time::timestamptz, payer, payee, quantity, 'TRANSFER_TYPE_LOSS'
    from (values
      ('2023-06-01 01:31:00+00', 'pool', 'b', 30), ('2023-06-01 01:32:00+00', 'b', 'pool', 50)
    ) as moved (time, payer, payee, quantity);
    insert into funding_payment (market_id, party_id, amount, funding_period_seq, vega_time)
    select id, party, amount, 1, '2023-06-01 01:33:00+00'
    from strata.markets, (values ('aa', 700), ('aa', -200), ('bb', -500)) as payment (party, amount)
    where code = 'BTC/USD';
    insert into market_data (synthetic_time, vega_time, market, auction_start, auction_end,
      auction_trigger, extension_trigger, indicative_price)
    select (time || '+00')::timestamptz, (time || '+00')::timestamptz, id,
      epoch_ns(timestamp '2023-06-01 01:40:00'), epoch_ns(ends::timestamp), 'AUCTION_TRIGGER_PRICE',
      extension, price
    from strata.markets, (values
      ('2023-06-01 01:40:00', '2023-06-01 01:41:00', 'AUCTION_TRIGGER_UNSPECIFIED', 2640000),
      ('2023-06-01 01:40:30', '2023-06-01 01:42:00', 'AUCTION_TRIGGER_LIQUIDITY', 2641000)
    ) as state (time, ends, extension, price)
    where code = 'BTC/USD';
    alter table current_market_data add column liquidity_provider_sla json;
    update current_market_data set liquidity_provider_sla = '[{"party": "cc",
      "current_epoch_fraction_of_time_on_book": "0.97", "last_epoch_fee_penalty": "0.1",
      "last_epoch_bond_penalty": "0"}]'
    where market = (select id from strata.markets where code = 'BTC/USD');
"""
"""What the sample lacks: a close-out, an insurance pool, funding, an auction, commitments."""


def _tables_of(current: Path, place: Path) -> None:
    """A file of the same views, but for tables in `main`, which can be changed."""
    with duckdb.connect(place) as con:
        con.execute(f"attach '{current}' as held (read_only)")
        con.execute(f"copy from database held to {place.stem}")
        views = "duckdb_views() where (database_name, schema_name) = ('held', 'main')"
        query = f"select view_name from {views} and not internal"
        for (name,) in con.execute(query).fetchall():
            con.execute(f"drop view main.{name}")
            con.execute(f"create table main.{name} as from held.main.{name}")


def test_what_the_sample_lacks_is_answered_where_it_happened(
    con: duckdb.DuckDBPyConnection, sample_site: Site, tmp_path: Path
) -> None:
    place = tmp_path / "changed.duckdb"
    _tables_of(sample_site.warehouse.current, place)
    with duckdb.connect(place) as changed:
        changed.execute(_HAPPENED)
        changed.execute("set timezone = 'UTC'")
        rows = {title: _ask(changed, title, "UTC") for title in _QUERIES}
    lacking = {title for title in _QUERIES if not _ask(con, title, "UTC")}
    unit = Decimal("1e-6")
    closed_out = datetime(2023, 6, 1, 1, 30, tzinfo=UTC)
    auction = [datetime.fromisoformat(f"2023-06-01 01:{minute}") for minute in (40, 42)]
    assert {title: [row[-5:] for row in rows[title]] for title in lacking} == {
        "Whom did the network close out?": [
            (closed_out, "BTC/USD", "aa", Decimal(26500), Decimal("1.5"))
        ],
        "What did insurance pools receive and pay?": [
            ("USDT", "BTC/USD", "TRANSFER_TYPE_LOSS", 2, 20 * unit)
        ],
        "Who received and paid funding?": [
            ("aa", 2, 700 * unit, 200 * unit, "USDT"),
            ("bb", 1, Decimal(0), 500 * unit, "USDT"),
        ],
        "Which auctions were there, and why?": [
            (*auction, "AUCTION_TRIGGER_PRICE", "AUCTION_TRIGGER_LIQUIDITY", Decimal(26410))
        ],
        "How well do liquidity providers keep their commitments?": [
            ("BTC/USD", "cc", 0.97, 0.1, 0.0)
        ],
    }
