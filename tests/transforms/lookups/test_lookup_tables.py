"""Lookups of a volume: never wrong about what it holds, and in the order that they promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.duck import Connection, file_connection
from transforms.lookups.held_lookups import Lookups, packed_lookups
from transforms.lookups.key_filters import key_hashes
from transforms.lookups.key_pages import PageTable, page_rows
from transforms.lookups.lookup_tables import (
    BY_ID,
    BY_PARTY,
    BY_TIME,
    FILTERS,
    IDENTITIES,
    ORDERS,
    PROVISIONS_BY_MARKET,
    PROVISIONS_BY_PARTY,
    TIMES,
    LookupSource,
    prove_lookups,
    write_lookups,
)
from transforms.mapped_files import Mapped
from transforms.tables.registry import Column

_COLUMNS = "id varchar, party_id varchar, vega_time date"
_OTHERS = {"withdrawals": _COLUMNS, "liquidity_provisions": f"{_COLUMNS}, market_id varchar"}
_POSTGRES = {
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "DOUBLE": "double precision",
}
_WITHDRAWALS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["p", "q"]), st.integers(0, 9)), unique=True
)


@pytest.fixture
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        yield con


def _volume(con: Connection, ids: Sequence[str], rows: Sequence[tuple[int, str, int]]) -> None:
    """Fresh tables, in memory, and their lookups."""
    con.execute("detach database if exists volume")
    con.execute("attach ':memory:' as volume")
    _fill(con, ids, rows)


def _held(volume: Path) -> Lookups | None:
    """What a server holds of a volume."""
    with file_connection() as con:
        return Lookups.of(Mapped(memoryview(packed_lookups(con, volume))))


def _sources(con: Connection) -> dict[str, LookupSource]:
    """The tables of the attached database as sources of lookups, by their columns' types."""
    asked = (
        "select table_name, column_name, data_type from duckdb_columns() "
        "where database_name = 'volume' and schema_name = 'main' order by all"
    )
    columns: dict[str, list[Column]] = {}
    for table, name, kind in con.execute(asked).fetchall():
        columns.setdefault(table, []).append(Column(name, _POSTGRES.get(kind, "text")))
    return {
        table: LookupSource(table, tuple(listed), f"volume.main.{table}")
        for table, listed in columns.items()
    }


def _proof(con: Connection) -> str:
    return prove_lookups(con, "volume", _sources(con))


def _fill(con: Connection, ids: Sequence[str], rows: Sequence[tuple[int, str, int]]) -> None:
    own = "_segment bigint, _row bigint, _raw map(varchar, varchar)"
    con.execute(
        "create table volume.orders "
        f"(id varchar, version integer, vega_time timestamptz, seq_num bigint, {own})"
    )
    columns = "id varchar, party_id varchar, vega_time timestamptz"
    con.execute(f"create table volume.withdrawals ({columns}, {own})")
    con.execute(f"create table volume.liquidity_provisions ({columns}, market_id varchar, {own})")
    for id_ in ids:
        con.execute(
            "insert into volume.orders "
            "values ($1, 1, now(), 1, 1, 1, null), ($1, 2, now(), 2, 1, 2, null)",
            [id_],
        )
    for place, (number, party, time) in enumerate(rows):
        con.execute(
            "insert into volume.withdrawals values ($1, $2, make_timestamptz($3), 1, $4, null)",
            [str(number), party, time, place],
        )
        con.execute(
            "insert into volume.liquidity_provisions "
            "values ($1, $2, make_timestamptz($3), 'm' || $5 % 2, 1, $4, null)",
            [str(number), party, time, place, number],
        )
    write_lookups(con, "volume", _sources(con))


@pytest.fixture(scope="module")
def memory() -> Iterator[Connection]:
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        yield con


@given(rows=_WITHDRAWALS)
@settings(max_examples=25, deadline=None)
def test_withdrawals_are_the_last_row_of_each_in_every_order(
    memory: Connection, rows: list[tuple[int, str, int]]
) -> None:
    _volume(memory, [], rows)
    last = {
        (str(id_), party): max(t for i, p, t in rows if (i, p) == (id_, party))
        for id_, party, _ in rows
    }
    wanted = [(time, id_, party) for (id_, party), time in last.items()]
    for table, order in ((BY_TIME, (0, 1, 2)), (BY_PARTY, (2, 0, 1)), (BY_ID, (1, 0, 2))):
        assert _paged(memory, table) == sorted(wanted, key=itemgetter(*order))


def test_orders_have_pages_by_id(con: Connection) -> None:
    _volume(con, ["b", "c", "a"], [])
    ordered = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("c", 2)]
    assert _paged(con, ORDERS, 1, 3) == ordered
    assert _proof(con) == ""


def _paged(con: Connection, table: PageTable, *columns: int) -> list[tuple[object, ...]]:
    bodies = con.execute(f"select body from volume.strata.{table.name} order by page").fetchall()
    return [
        tuple(row[at] for at in columns or (0, 1, 2))
        for (body,) in bodies
        for row in page_rows(body)
    ]


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"orders": "id varchar"},
        {"orders": "id varchar", "withdrawals": "id varchar, party_id varchar"},
        {"orders": "key varchar", "withdrawals": _COLUMNS},
        {"orders": "id varchar, version int, vega_time date", **_OTHERS},
        {"orders": "id varchar, version double, vega_time date, seq_num int", **_OTHERS},
    ],
)
def test_a_volume_that_lacks_a_table_or_a_column_has_no_lookups(
    con: Connection, tables: dict[str, str]
) -> None:
    con.execute("attach ':memory:' as volume")
    for table, columns in tables.items():
        con.execute(f"create table volume.{table} ({columns})")
    assert not write_lookups(con, "volume", _sources(con))
    found = "select count(*) from duckdb_tables() where schema_name = 'strata'"
    assert con.execute(found).fetchall() == [(0,)]


def test_of_rows_that_tie_the_last_in_the_csv_counts(con: Connection) -> None:
    con.execute("attach ':memory:' as volume")
    tables = {
        "orders": "select 'ab' as id, 1 as version, now() as vega_time, 1 as seq_num, "
        "1 as _segment, 1 as _row",
        "withdrawals": "select '1' as id, 'p' as party_id, make_timestamptz(5) as vega_time, "
        "1 as _segment, i as _row, 's' || i as status from range(3) t(i) order by 5 desc",
        "liquidity_provisions": "select 'l' as id, 'p' as party_id, 'm' as market_id, "
        "now() as vega_time, 1 as _segment, 1 as _row",
    }
    for table, rows in tables.items():
        con.execute(
            f"create table volume.{table} as select *, null::map(varchar, varchar) as _raw "
            f"from ({rows})"
        )
    write_lookups(con, "volume", _sources(con))
    for name in (BY_PARTY, BY_TIME, BY_ID):
        assert _paged(con, name, 5) == [("s2",)]


_WRITTEN = "insert into volume.withdrawals values ('9', 'p', now(), 1, 9, null)"
_PLACED = "insert into volume.orders values ('cd', 1, now(), 1, 1, 3, null)"


@pytest.mark.parametrize(
    ("change", "lookup"),
    [
        ("update {} set bits = repeat('0', 64)::bit::blob where key = 'orders.id'", FILTERS),
        ("delete from {} where key = 'withdrawals.party_id'", FILTERS),
        ("update {} set party_id = 'q'", BY_PARTY.name),
        ("delete from {}", BY_TIME.name),
        ("update {} set body = 'x'", BY_ID.name),
        ("update {} set written = 0", IDENTITIES),
        ("update {} set last = 7 where key = 'withdrawals'", TIMES),
        ("update {} set market_id = 'm'", PROVISIONS_BY_MARKET.name),
        ("delete from {}", PROVISIONS_BY_PARTY.name),
        ("update volume.liquidity_provisions set market_id = 'm9'", PROVISIONS_BY_MARKET.name),
        (_WRITTEN, BY_PARTY.name),
        (_PLACED, ORDERS.name),
        ("update {} set body = 'x'", ORDERS.name),
    ],
)
def test_lookups_that_do_not_follow_from_the_tables_are_reported(
    con: Connection, change: str, lookup: str
) -> None:
    _volume(con, ["ab", "ac"], [(1, "p", 5), (2, "p", 6)])
    assert _proof(con) == ""
    con.execute(change.format(f"volume.strata.{lookup}"))
    assert _proof(con) == f"the lookup {lookup} does not follow from its tables"


def test_tables_that_allow_no_lookups_have_none(con: Connection) -> None:
    con.execute("attach ':memory:' as volume")
    assert _proof(con) == "no lookups follow from these tables"


def test_lookups_are_found_where_they_are(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute(f"attach '{tmp_path / 'with.duckdb'}' as volume")
        _fill(con, ["ab"], [(1, "p", 5)])
        con.execute("detach volume")
    with duckdb.connect(tmp_path / "without.duckdb") as con:
        con.execute("create schema strata")
    assert _held(tmp_path / "without.duckdb") is None
    found = _held(tmp_path / "with.duckdb")
    assert found is not None
    assert len(found.pages[ORDERS]) == 1
    for column, key in {
        "orders.id": "ab",
        "withdrawals.id": "1",
        "withdrawals.party_id": "p",
        "liquidity_provisions.market_id": "m1",
        "liquidity_provisions.party_id": "p",
    }.items():
        assert found.filters[column].may_hold(key_hashes(key))
        assert not found.filters[column].may_hold(key_hashes("other"))
    assert found.times == {"withdrawals": (5, 5), "liquidity_provisions": (5, 5)}
    assert found.pages[BY_PARTY][0] == found.pages[PROVISIONS_BY_PARTY][0] == ("p", 5)
    assert found.pages[PROVISIONS_BY_MARKET][0] == ("m1", 5)
    assert found.pages[BY_TIME][0] == (5,)
