"""Lookups: what an index file has, from which servers answer fastest.

Made from the finished data files of a run of segments:

withdrawals_by_party    of each withdrawal of a party the last row in this volume, in pages
withdrawals_by_time     the same rows by time
withdrawals_by_id       the same rows by id
provisions_by_market    the rows of `liquidity_provisions` in pages
provisions_by_party     the same rows by party
orders_by_id            the rows of `orders` in pages
facts                   `times`: the first and the last time of the rows above; `identities`: of
                        the withdrawals the MD5 of id and party, and the time

A run of segments without them is answered from its data files: slower, and the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa

from transforms.duck import Connection
from transforms.lookups.index_file import IndexFile, read_fact, write_fact
from transforms.lookups.key_pages import PageTable, prove_pages, row_sql, write_pages
from transforms.lookups.row_columns import (
    ORDER,
    PROVISION,
    WITHDRAWAL,
    RowColumns,
    TableColumns,
)
from transforms.tables.conform import conversion
from transforms.tables.registry import Column

BY_PARTY = PageTable("withdrawals_by_party", (("party_id", "text"), ("vega_time", "time")))
BY_TIME = PageTable("withdrawals_by_time", (("vega_time", "time"),))
BY_ID = PageTable("withdrawals_by_id", (("id", "text"),))
PROVISIONS_BY_MARKET = PageTable(
    "provisions_by_market", (("market_id", "text"), ("vega_time", "time"))
)
PROVISIONS_BY_PARTY = PageTable(
    "provisions_by_party", (("party_id", "text"), ("vega_time", "time"))
)
ORDERS = PageTable("orders_by_id", (("id", "text"),))

TIMES = "times"
IDENTITIES = ("highs", "lows", "written")

LATEST = (
    "row_number() over ("
    "partition by id, party_id order by vega_time desc, _segment desc, _row desc) = 1"
)
"""SQL of the last row of each withdrawal of a party."""
LISTED = "epoch_us(vega_time) is not null and id is not null and party_id is not null"
"""SQL of the withdrawals that have a place in a listing."""
LISTED_PROVISIONS = f"{LISTED} and market_id is not null"
"""SQL of the provisions that have one."""
IDENTITY = "md5_number(id || ' ' || party_id)"
"""SQL for what tells two withdrawals of parties apart."""

_KEYS = (
    ("orders", "id"),
    ("withdrawals", "id"),
    ("withdrawals", "party_id"),
    ("liquidity_provisions", "market_id"),
    ("liquidity_provisions", "party_id"),
)
_ROWS: Mapping[str, RowColumns] = {
    "orders": ORDER,
    "withdrawals": WITHDRAWAL,
    "liquidity_provisions": PROVISION,
}
PAGES = {
    BY_PARTY: ("withdrawals", "party_id, vega_time, id"),
    BY_TIME: ("withdrawals", "vega_time, id, party_id"),
    BY_ID: ("withdrawals", "id, vega_time, party_id"),
    PROVISIONS_BY_MARKET: ("liquidity_provisions", "market_id, vega_time, id, _segment, _row"),
    PROVISIONS_BY_PARTY: ("liquidity_provisions", "party_id, vega_time, id, _segment, _row"),
    ORDERS: ("orders", "id, vega_time, seq_num, _segment, _row"),
}
_NEEDED = {
    *_KEYS,
    *((table, column) for table in _ROWS for column in ("id", "vega_time")),
    ("orders", "version"),
    ("orders", "seq_num"),
}
# What JSON holds exactly; other columns are read as text or as microseconds.
_PLAIN = {"VARCHAR", "SMALLINT", "INTEGER", "BIGINT", "BOOLEAN"}


@dataclass(frozen=True, slots=True)
class LookupSource:
    """A table of which lookups are made: its columns, and SQL for its rows with these."""

    table: str
    columns: Sequence[Column]
    rows: str


def write_lookups(
    con: Connection, file: sqlite3.Connection, sources: Mapping[str, LookupSource]
) -> bool:
    """Make the lookups of a run's tables in a new index file.

    Returns whether there are any: none where segments lack a column that they need, or have one of
    another kind.
    """
    tables = _tables(sources)
    if not tables:
        return False
    for table in PAGES:
        write_pages(con, file, table, _rows_sql(table, tables, sources))
    for name, body in _facts(con, sources).items():
        write_fact(file, name, body)
    return True


def prove_lookups(
    con: Connection, file: sqlite3.Connection, sources: Mapping[str, LookupSource]
) -> str:
    """Make the lookups of an index file again; says what is wrong, "" if nothing is."""
    tables = _tables(sources)
    if not tables:
        return "no lookups follow from these tables"
    for table in PAGES:
        if not prove_pages(con, file, table, _rows_sql(table, tables, sources)):
            return f"the lookup {table.name} does not follow from its tables"
    for name, body in _facts(con, sources).items():
        if read_fact(file, name) != body:
            return f"the lookup {name} does not follow from its tables"
    return ""


@dataclass(frozen=True, slots=True)
class Identities:
    """The withdrawals of a volume, by the two halves of their identities, in order of these.

    `written` are the times of their last rows, in microseconds.
    """

    highs: Sequence[int]
    lows: Sequence[int]
    written: Sequence[int]


def identities_of(index: IndexFile) -> Identities:
    """The identities in an index file. Raises `UnreadableIndexError`."""
    highs, lows, written = (memoryview(index.fact(name)) for name in IDENTITIES)
    return Identities(highs.cast("Q"), lows.cast("Q"), written.cast("q"))


def times_of(index: IndexFile, table: str) -> tuple[int, int] | None:
    """The first and the last time of a table's rows in an index file, in microseconds.

    None where it has none. Raises `UnreadableIndexError`.
    """
    times = orjson.loads(index.fact(TIMES))[table]
    return None if times[0] is None else (times[0], times[1])


def _tables(sources: Mapping[str, LookupSource]) -> dict[str, TableColumns]:
    """The tables that lookups are made of; none where one of them is not as they need it."""
    types = {
        (table, column.name.lower()): conversion(table, column).type
        for table, source in sources.items()
        for column in source.columns
    }
    if not types.keys() >= _NEEDED:
        return {}
    for table, rows in _ROWS.items():
        if any(types.get((table, name), "VARCHAR") not in _PLAIN for name in rows.plain):
            return {}
    return {
        table: TableColumns.of(names, names)
        for table in _ROWS
        for names in [[column.name for column in sources[table].columns]]
    }


def _rows_sql(
    table: PageTable, tables: Mapping[str, TableColumns], sources: Mapping[str, LookupSource]
) -> str:
    """SQL for the rows of a page table, as `write_pages` wants them."""
    name, order = PAGES[table]
    keys = ", ".join(
        f"epoch_us({column}) as {column}" if kind == "time" else column
        for column, kind in table.key
    )
    source = sources[name].rows
    rows = {
        "withdrawals": f"({latest_sql(source)})",
        "liquidity_provisions": f"{source} where {LISTED_PROVISIONS}",
        "orders": f"{source} where id is not null",
    }
    row = row_sql(_ROWS[name].direct(tables[name]))
    return f"select {keys}, {row} from {rows[name]} order by {order}"  # noqa: S608


def latest_sql(withdrawals: str) -> str:
    """SQL for the last row of each withdrawal of a party, of those that can be listed."""
    return f"select * from {withdrawals} where {LISTED} qualify {LATEST}"  # noqa: S608 - ours


def _facts(con: Connection, sources: Mapping[str, LookupSource]) -> dict[str, bytes]:
    """What lookups have besides pages."""
    withdrawals, provisions = (
        sources[name].rows for name in ("withdrawals", "liquidity_provisions")
    )
    times = {
        table: con.execute(
            f"select epoch_us(min(vega_time)), epoch_us(max(vega_time)) from {rows}"  # noqa: S608
        ).fetchall()[0]
        for table, rows in (
            ("withdrawals", f"({latest_sql(withdrawals)})"),
            ("liquidity_provisions", f"{provisions} where {LISTED_PROVISIONS}"),
        )
    }
    identities = con.sql(halves_sql(f"({latest_sql(withdrawals)})")).to_arrow_table()
    columns = {name: _column_bytes(identities.column(name)) for name in IDENTITIES}
    return {TIMES: orjson.dumps(times), **columns}


def _column_bytes(column: pa.ChunkedArray) -> bytes:
    """The bytes of a column of 64-bit numbers, none of which is NULL."""
    return b"".join(
        bytes(memoryview(chunk.buffers()[1])[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
        for chunk in column.chunks
    )


def halves_sql(rows: str) -> str:
    """SQL for the columns of `Identities` of withdrawals, in their order."""
    half = "18446744073709551615::uhugeint"
    return (
        f"select (identity >> 64)::ubigint as highs, (identity & {half})::ubigint as lows, "  # noqa: S608
        f"written from ({identities_sql(rows)}) order by identity"
    )


def identities_sql(rows: str) -> str:
    """SQL for the identities of withdrawals and when they were written, in microseconds."""
    return f"select {IDENTITY} as identity, epoch_us(vega_time) as written from {rows}"  # noqa: S608
