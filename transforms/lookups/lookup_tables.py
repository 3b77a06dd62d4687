"""Lookups: the tables of an index file, from which servers answer fastest.

In the schema `strata`, made from the finished data files of a run of segments:

key_filters             which orders, withdrawals, parties and markets the volume may hold
withdrawals_by_party    of each withdrawal of a party the last row in this volume, in pages
withdrawals_by_time     the same rows by time
withdrawals_by_id       the same rows by id
withdrawal_identities   of the same rows the MD5 of id and party, and the time
provisions_by_market    the rows of `liquidity_provisions` in pages
provisions_by_party     the same rows by party
row_times               the first and the last time of the rows above
orders_by_id            the rows of `orders` in pages

A run of segments without them is answered from its data files: slower, and the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from transforms.duck import Connection, quote_name
from transforms.lookups.key_filters import filter_sql
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

FILTERS = "key_filters"
IDENTITIES = "withdrawal_identities"
TIMES = "row_times"
BY_PARTY = PageTable("withdrawals_by_party", (("party_id", "text"), ("vega_time", "time")))
BY_TIME = PageTable("withdrawals_by_time", (("vega_time", "time"),))
BY_ID = PageTable("withdrawals_by_id", (("id", "prefix"),))
PROVISIONS_BY_MARKET = PageTable(
    "provisions_by_market", (("market_id", "text"), ("vega_time", "time"))
)
PROVISIONS_BY_PARTY = PageTable(
    "provisions_by_party", (("party_id", "text"), ("vega_time", "time"))
)
ORDERS = PageTable("orders_by_id", (("id", "prefix"),))

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

_FILTERED = (
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
    *_FILTERED,
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


def write_lookups(con: Connection, index: str, sources: Mapping[str, LookupSource]) -> bool:
    """Make the lookups of a run's tables in a new file, which is attached as `index`.

    Returns whether there are any: none where segments lack a column that they need, or have one of
    another kind.
    """
    tables = _tables(sources)
    if not tables:
        return False
    con.execute(f"create schema {quote_name(index)}.strata")
    for table in PAGES:
        write_pages(con, quote_name(index), table, _rows_sql(table, tables, sources))
    for name, query in _queries(con, sources).items():
        con.execute(f"create table {_in(index, name)} as {query}")
    return True


def prove_lookups(con: Connection, index: str, sources: Mapping[str, LookupSource]) -> str:
    """Make the lookups of an attached index file again; says what is wrong, "" if nothing is."""
    tables = _tables(sources)
    if not tables:
        return "no lookups follow from these tables"
    for table in PAGES:
        rows = _rows_sql(table, tables, sources)
        if not prove_pages(con, quote_name(index), table, rows):
            return _wrong(table.name)
    for name, query in _queries(con, sources).items():
        # Which rows there are; that they lie in order makes them fast, not right.
        sums = [
            con.execute(f"select count(*), bit_xor(hash(_made)) from {rows} _made").fetchall()  # noqa: S608
            for rows in (_in(index, name), f"({query})")
        ]
        if sums[0] != sums[1]:
            return _wrong(name)
    return ""


def lookups_of(con: Connection, index: str) -> Collection[str]:
    """The tables of an attached index file; none where it has none."""
    query = (
        "select table_name from duckdb_tables() where database_name = $1 and schema_name = 'strata'"
    )
    names = {name for (name,) in con.execute(query, [index]).fetchall()}
    return names if FILTERS in names else ()


def _wrong(name: str) -> str:
    return f"the lookup {name} does not follow from its tables"


def _in(index: str, name: str) -> str:
    return f"{quote_name(index)}.strata.{name}"


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


def _queries(con: Connection, sources: Mapping[str, LookupSource]) -> dict[str, str]:
    """The SQL that makes each lookup which has no pages."""
    withdrawals, provisions = (
        sources[name].rows for name in ("withdrawals", "liquidity_provisions")
    )
    filters = (
        f"select '{table}.{column}' as key, bits from ({bits})"  # noqa: S608 - our own names
        for table, column in _FILTERED
        for bits in [filter_sql(con, sources[table].rows, column)]
    )
    times = (
        f"select '{table}' as key, min(epoch_us(vega_time)) as first, "  # noqa: S608 - ours
        f"max(epoch_us(vega_time)) as last from {rows}"
        for table, rows in (
            ("withdrawals", f"({latest_sql(withdrawals)})"),
            ("liquidity_provisions", f"{provisions} where {LISTED_PROVISIONS}"),
        )
    )
    return {
        FILTERS: " union all ".join(filters),
        IDENTITIES: identities_sql(f"({latest_sql(withdrawals)})"),
        TIMES: " union all ".join(times),
    }


def identities_sql(rows: str) -> str:
    """SQL for the identities of withdrawals and when they were written, in microseconds."""
    return f"select {IDENTITY} as identity, epoch_us(vega_time) as written from {rows}"  # noqa: S608
