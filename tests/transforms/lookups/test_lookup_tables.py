"""Lookups of a volume: never wrong about what it holds, and in the order that they promise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.duck import Connection
from transforms.lookups.identities import IDENTITIES, Identities
from transforms.lookups.index_file import TABLES, IndexConnections, IndexFile, new_index
from transforms.lookups.key_pages import PageTable, read_pages
from transforms.lookups.lookup_tables import (
    BY_ID,
    BY_PARTY,
    BY_TIME,
    ORDERS,
    PROVISIONS_BY_MARKET,
    PROVISIONS_BY_PARTY,
    LookupSource,
    prove_lookups,
    times_of,
    write_lookups,
)
from transforms.tables.registry import Column

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


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    with _memory_file() as file:
        yield file


def _memory_file() -> closing[sqlite3.Connection]:
    """An index file without anything, in memory."""
    file = sqlite3.connect(":memory:")
    file.execute("create table facts (name text primary key, crc integer, body blob)")
    return closing(file)


def _volume(
    con: Connection,
    file: sqlite3.Connection,
    ids: Sequence[str],
    rows: Sequence[tuple[int, str, int]],
) -> None:
    """Fresh tables, in memory, and their lookups."""
    con.execute("detach database if exists volume")
    con.execute("attach ':memory:' as volume")
    _fill(con, file, ids, rows)


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


def _proof(con: Connection, file: sqlite3.Connection) -> str:
    return prove_lookups(con, file, _sources(con))


def _fill(
    con: Connection,
    file: sqlite3.Connection,
    ids: Sequence[str],
    rows: Sequence[tuple[int, str, int]],
) -> None:
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
    assert write_lookups(con, file, _sources(con))


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
    last = {
        (str(id_), party): max(t for i, p, t in rows if (i, p) == (id_, party))
        for id_, party, _ in rows
    }
    wanted = [(time, id_, party) for (id_, party), time in last.items()]
    with _memory_file() as file:
        _volume(memory, file, [], rows)
        for table, order in ((BY_TIME, (0, 1, 2)), (BY_PARTY, (2, 0, 1)), (BY_ID, (1, 0, 2))):
            assert _paged(file, table) == sorted(wanted, key=itemgetter(*order))


def test_orders_have_pages_by_id(con: Connection, file: sqlite3.Connection) -> None:
    _volume(con, file, ["b", "c", "a"], [])
    ordered = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("c", 2)]
    assert _paged(file, ORDERS, 1, 3) == ordered
    assert _proof(con, file) == ""


@settings(max_examples=25, deadline=None)
@given(ids=st.lists(st.text("ab\"'é\U0001f600", max_size=3), min_size=1, max_size=40, unique=True))
def test_orders_of_any_ids_have_pages(memory: Connection, ids: list[str]) -> None:
    with _memory_file() as file:
        _volume(memory, file, ids, [])
        assert _proof(memory, file) == ""
        assert [row[0] for row in _paged(file, ORDERS, 1)[::2]] == sorted(ids)


def _paged(file: sqlite3.Connection, table: PageTable, *columns: int) -> list[tuple[object, ...]]:
    return [
        tuple(row[at] for at in columns or (0, 1, 2))
        for page in read_pages(file, table, (), (), descending=False)
        for row in page
    ]


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"orders": "id varchar"},
        {"orders": "id varchar", "withdrawals": "id varchar, party_id varchar"},
        {"orders": "id varchar, version int, vega_time date"},
    ],
)
def test_a_volume_that_lacks_a_table_or_a_column_has_no_lookups(
    con: Connection, file: sqlite3.Connection, tables: dict[str, str]
) -> None:
    con.execute("attach ':memory:' as volume")
    for table, columns in tables.items():
        con.execute(f"create table volume.{table} ({columns})")
    assert not write_lookups(con, file, _sources(con))
    assert file.execute("select count(*) from facts").fetchall() == [(0,)]


def test_of_rows_that_tie_the_last_in_the_csv_counts(
    con: Connection, file: sqlite3.Connection
) -> None:
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
    assert write_lookups(con, file, _sources(con))
    for name in (BY_PARTY, BY_TIME, BY_ID):
        assert _paged(file, name, 5) == [("s2",)]


_WRITTEN = "insert into volume.withdrawals values ('9', 'p', now(), 1, 9, null)"
_PLACED = "insert into volume.orders values ('cd', 1, now(), 1, 1, 3, null)"


@pytest.mark.parametrize(
    ("change", "lookup"),
    [
        (f"update {BY_PARTY.name} set party_id = 'q'", BY_PARTY.name),
        (f"delete from {BY_TIME.name}", BY_TIME.name),
        (f"update {BY_ID.name} set body = x'78'", BY_ID.name),
        (f"update {PROVISIONS_BY_MARKET.name} set market_id = 'm'", PROVISIONS_BY_MARKET.name),
        (f"delete from {PROVISIONS_BY_PARTY.name}", PROVISIONS_BY_PARTY.name),
        (f"update {ORDERS.name} set marks = x'78'", ORDERS.name),
    ],
)
def test_pages_that_do_not_follow_from_the_tables_are_reported(
    con: Connection, file: sqlite3.Connection, change: str, lookup: str
) -> None:
    _volume(con, file, ["ab", "ac"], [(1, "p", 5), (2, "p", 6)])
    assert _proof(con, file) == ""
    file.execute(change)
    assert _proof(con, file) == f"the lookup {lookup} does not follow from its tables"


@pytest.mark.parametrize("name", [TABLES, *(f"withdrawals.{name}" for name in IDENTITIES)])
def test_facts_that_do_not_follow_from_the_tables_are_reported(
    con: Connection, file: sqlite3.Connection, name: str
) -> None:
    _volume(con, file, ["ab"], [(1, "p", 5)])
    file.execute("update facts set crc = 0, body = x'' where name = ?", [name])
    assert _proof(con, file) == f"the lookup {name} does not follow from its tables"


@pytest.mark.parametrize(
    ("change", "lookup"),
    [
        ("update volume.liquidity_provisions set market_id = 'm9'", PROVISIONS_BY_MARKET.name),
        (_WRITTEN, BY_PARTY.name),
        (_PLACED, ORDERS.name),
    ],
)
def test_lookups_of_other_rows_are_reported(
    con: Connection, file: sqlite3.Connection, change: str, lookup: str
) -> None:
    _volume(con, file, ["ab", "ac"], [(1, "p", 5), (2, "p", 6)])
    con.execute(change)
    assert _proof(con, file) == f"the lookup {lookup} does not follow from its tables"


def test_tables_that_allow_no_lookups_have_none(con: Connection, file: sqlite3.Connection) -> None:
    con.execute("attach ':memory:' as volume")
    assert _proof(con, file) == "no lookups follow from these tables"


def test_lookups_are_read_from_their_file(con: Connection, tmp_path: Path) -> None:
    con.execute("attach ':memory:' as volume")
    with new_index(tmp_path / "index.sqlite") as file:
        _fill(con, file, ["ab"], [(1, "p", 5)])
    connections = IndexConnections()
    index = IndexFile(tmp_path / "index.sqlite", connections)
    for table, key in {
        ORDERS: ("ab",),
        BY_ID: ("1",),
        BY_PARTY: ("p", 5),
        BY_TIME: (5,),
        PROVISIONS_BY_MARKET: ("m1",),
        PROVISIONS_BY_PARTY: ("p",),
    }.items():
        assert len([*index.pages(table, key, key)]) == 1
    for table in (ORDERS, BY_ID, BY_PARTY, PROVISIONS_BY_MARKET, PROVISIONS_BY_PARTY):
        assert [*index.pages(table, ("other",), ("other",))] == []
    assert times_of(index, "withdrawals") == times_of(index, "liquidity_provisions") == (5, 5)
    identities = Identities(index, "withdrawals")
    assert (len(identities.highs), len(identities.lows), [*identities.written]) == (1, 1, [5])
    connections.keep()
