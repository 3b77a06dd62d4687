"""Lookups of a volume: never wrong about what it holds, and in the order that they promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.duck import Connection
from transforms.lookups.lookup_tables import OrderFilter, prove_lookups, read_lookups, write_lookups
from transforms.sessions import SessionPool

_IDS = st.lists(st.text("0123456789abcdef", max_size=64), max_size=40)
_WITHDRAWALS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["p", "q"]), st.integers(0, 9)), unique=True
)


@pytest.fixture
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        yield con


def _volume(con: Connection, ids: Sequence[str], rows: Sequence[tuple[int, str, int]]) -> None:
    """A fresh volume, in memory."""
    con.execute("detach database if exists volume")
    con.execute("attach ':memory:' as volume")
    _fill(con, ids, rows)


def _fill(con: Connection, ids: Sequence[str], rows: Sequence[tuple[int, str, int]]) -> None:
    con.execute("create schema volume.strata")
    con.execute("create table volume.orders (id varchar, version integer)")
    columns = "id varchar, party_id varchar, vega_time timestamptz, _segment bigint, _row bigint"
    con.execute(f"create table volume.withdrawals ({columns})")
    for id_ in ids:
        con.execute("insert into volume.orders values ($1, 1), ($1, 2)", [id_])
    for place, (number, party, time) in enumerate(rows):
        con.execute(
            "insert into volume.withdrawals values ($1, $2, make_timestamptz($3), 1, $4)",
            [str(number), party, time, place],
        )
    write_lookups(con, "volume")


@pytest.fixture(scope="module")
def memory() -> Iterator[Connection]:
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        yield con


@given(ids=_IDS, others=_IDS)
@settings(max_examples=25, deadline=None)
def test_a_filter_knows_every_order_and_few_others(
    memory: Connection, ids: list[str], others: list[str]
) -> None:
    _volume(memory, ids, [])
    ((bits,),) = memory.execute("select bits from volume.strata.order_filter").fetchall()
    orders = OrderFilter(bits)
    assert all(id_ in orders for id_ in ids)
    if not ids:
        assert not any(id_ in orders for id_ in others)


def test_a_filter_is_seldom_asked_in_vain(memory: Connection) -> None:
    _volume(memory, [f"{n:064x}" for n in range(400)], [])
    ((bits,),) = memory.execute("select bits from volume.strata.order_filter").fetchall()
    orders = OrderFilter(bits)
    vain = sum(f"{n:064x}" in orders for n in range(400, 4400))
    assert vain < 80  # one in 150 is meant, one in 50 would be wrong


@given(rows=_WITHDRAWALS)
@settings(max_examples=25, deadline=None)
def test_withdrawals_are_the_last_row_of_each_in_both_orders(
    memory: Connection, rows: list[tuple[int, str, int]]
) -> None:
    _volume(memory, [], rows)
    last = {
        (str(id_), party): max(t for i, p, t in rows if (i, p) == (id_, party))
        for id_, party, _ in rows
    }
    wanted = [(time, id_, party) for (id_, party), time in last.items()]
    shown = "select epoch_us(vega_time), id, party_id from volume.strata"
    assert memory.execute(f"{shown}.withdrawals_latest").fetchall() == sorted(wanted)
    assert memory.execute(f"{shown}.withdrawals_of").fetchall() == sorted(
        wanted, key=lambda row: (row[2], row[0], row[1])
    )


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"orders": "id varchar"},
        {"orders": "id varchar", "withdrawals": "id varchar, party_id varchar"},
        {"orders": "key varchar", "withdrawals": "id varchar, party_id varchar, vega_time date"},
        {
            "orders": "id varchar, ROWID varchar",
            "withdrawals": "id varchar, party_id varchar, vega_time date",
        },
    ],
)
def test_a_volume_that_lacks_a_table_or_a_column_has_no_lookups(
    con: Connection, tables: dict[str, str]
) -> None:
    con.execute("attach ':memory:' as volume")
    con.execute("create schema volume.strata")
    for table, columns in tables.items():
        con.execute(f"create table volume.{table} ({columns})")
    write_lookups(con, "volume")
    found = "select count(*) from duckdb_tables() where schema_name = 'strata'"
    assert con.execute(found).fetchall() == [(0,)]


def test_of_rows_that_tie_the_last_in_the_csv_counts(con: Connection) -> None:
    _volume(con, [], [(1, "p", 5), (1, "p", 5), (1, "p", 4)])
    for name in ("withdrawals_latest", "withdrawals_of"):
        assert con.execute(f"select _row from volume.strata.{name}").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("change", "lookup"),
    [
        ("update volume.strata.order_filter set bits = repeat('0', 64)::bit::blob", "order_filter"),
        ("delete from volume.strata.order_filter", "order_filter"),
        ("update volume.strata.withdrawals_latest set party_id = 'q'", "withdrawals_latest"),
        ("delete from volume.strata.withdrawals_latest where id = '1'", "withdrawals_latest"),
        ("update volume.strata.withdrawals_of set _row = 7 where id = '1'", "withdrawals_of"),
        ("insert into volume.strata.withdrawals_of from volume.withdrawals", "withdrawals_of"),
        ("insert into volume.orders values ('cd', 1)", "order_filter"),
        ("insert into volume.withdrawals values ('9', 'p', now(), 1, 9)", "withdrawals_latest"),
    ],
)
def test_lookups_that_do_not_follow_from_the_tables_are_reported(
    con: Connection, change: str, lookup: str
) -> None:
    _volume(con, ["ab", "ac"], [(1, "p", 5), (2, "p", 6)])
    assert prove_lookups(con, "volume") == ""
    con.execute(change)
    assert prove_lookups(con, "volume") == f"the lookup {lookup} does not follow from its tables"


def test_a_volume_without_lookups_needs_no_proof(con: Connection) -> None:
    con.execute("attach ':memory:' as volume")
    con.execute("create schema volume.strata")
    assert prove_lookups(con, "volume") == ""


def test_lookups_are_found_where_they_are(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute(f"attach '{tmp_path / 'with.duckdb'}' as volume")
        _fill(con, ["ab"], [(1, "p", 5)])
        con.execute("detach volume")
    with duckdb.connect(tmp_path / "without.duckdb") as con:
        con.execute("create schema strata")
    pool = SessionPool(tmp_path)
    with pool.session() as session:
        assert read_lookups(session, pool.attach(tmp_path / "without.duckdb")) is None
        found = read_lookups(session, pool.attach(tmp_path / "with.duckdb"))
    pool.close()
    assert found is not None
    assert found.rows_of_order("ab") == [(0, 2047)]
    assert found.rows_of_order("cd") == []
    assert found.rows_of_party("p") == [(0, 2047)]
    assert found.rows_of_party("q") == []
    assert found.time_map.near(5, 1, descending=True) == (0, 2047)
