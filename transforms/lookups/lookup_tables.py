"""Lookups: small tables beside those of a volume, from which servers answer fastest.

In the schema `strata` of a volume, made from its finished tables and never exported:

key_filters             which orders, withdrawals, parties and markets the volume may hold
withdrawals_by_party    of each withdrawal of a party the last row in this volume, in pages
withdrawals_by_time     the same rows by time
withdrawals_by_id       the same rows by id
withdrawal_identities   of the same rows the MD5 of id and party, and the time
provisions_by_market    the rows of `liquidity_provisions` in pages
provisions_by_party     the same rows by party
row_times               the first and the last time of the rows above
orders_by_id            the rows of `orders` in pages: only where these were sorted as a whole
orders_zones            where they were not, the zone map of `orders`

A volume without them is answered from its tables: slower, and the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
from transforms.lookups.zone_maps import zone_map_sql

FILTERS = "key_filters"
IDENTITIES = "withdrawal_identities"
TIMES = "row_times"
ZONES = "orders_zones"
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

ID_PREFIX = 16
"""Characters: ids are compared by their beginnings, which take less memory and differ as well."""
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
    ORDERS: ("orders", ""),
}
_NEEDED = {
    *_FILTERED,
    *((table, column) for table in _ROWS for column in ("id", "vega_time")),
    ("orders", "version"),
}
# Columns that would be taken for the numbers of the rows.
_HIDING = {("orders", "rowid"), ("withdrawals", "rowid")}
# What JSON holds exactly; other columns are read as text or as microseconds.
_PLAIN = {"VARCHAR", "SMALLINT", "INTEGER", "BIGINT", "BOOLEAN"}


def write_lookups(con: Connection, volume: str, *, is_sorted: bool = False) -> None:
    """Make the lookups of an attached volume of history, all of whose tables are written.

    `is_sorted` says that `orders` is sorted by id as a whole. A volume of current state has none,
    nor one whose segments lack a column that they need, or have one of another kind.
    """
    tables = _tables(con, volume)
    if not tables:
        return
    for table in PAGES:
        if table is not ORDERS or is_sorted:
            write_pages(con, quote_name(volume), table, _rows_sql(volume, table, tables))
    for name, query in _queries(con, volume).items():
        if name != ZONES or not is_sorted:
            con.execute(f"create table {quote_name(volume)}.strata.{name} as {query}")


def prove_lookups(con: Connection, volume: str) -> str:
    """Make the lookups of an attached volume again; says what of them is wrong, "" if nothing."""
    names = lookups_of(con, volume)
    if not names:
        return ""
    tables = _tables(con, volume)
    for table in PAGES:
        if table.name in names or table is not ORDERS:
            rows = _rows_sql(volume, table, tables)
            if not prove_pages(con, quote_name(volume), table, rows):
                return _wrong(table.name)
    for name, query in _queries(con, volume).items():
        if name in names or name != ZONES:
            # Which rows there are; that they lie in order makes them fast, not right.
            sums = [
                con.execute(f"select count(*), bit_xor(hash(_made)) from {rows} _made").fetchall()  # noqa: S608
                for rows in (_in(volume, name), f"({query})")
            ]
            if sums[0] != sums[1]:
                return _wrong(name)
    return ""


def lookups_of(con: Connection, volume: str) -> Collection[str]:
    """The tables of an attached volume's lookups; none where it has none."""
    query = (
        "select table_name from duckdb_tables() where database_name = $1 and schema_name = 'strata'"
    )
    names = {name for (name,) in con.execute(query, [volume]).fetchall()}
    return names if FILTERS in names else ()


def _wrong(name: str) -> str:
    return f"the lookup {name} does not follow from its tables"


def _in(volume: str, name: str) -> str:
    return f"{quote_name(volume)}.strata.{name}"


def _tables(con: Connection, volume: str) -> dict[str, TableColumns]:
    """The tables that lookups are made of; none where one of them is not as they need it."""
    columns = con.execute(
        "select table_name, column_name, data_type from duckdb_columns() "
        "where database_name = $1 and schema_name = 'main'",
        [volume],
    ).fetchall()
    types = {(table, name.lower()): kind for table, name, kind in columns}
    if not types.keys() >= _NEEDED or _HIDING & types.keys():
        return {}
    for table, rows in _ROWS.items():
        if any(types.get((table, name), "VARCHAR") not in _PLAIN for name in rows.plain):
            return {}
    return {
        table: TableColumns.of(names, names)
        for table in _ROWS
        for names in [[name for of, name, _ in columns if of == table]]
    }


def _rows_sql(volume: str, table: PageTable, tables: Mapping[str, TableColumns]) -> str:
    """SQL for the rows of a page table, as `write_pages` wants them."""
    name, order = PAGES[table]
    keys = ", ".join(
        f"epoch_us({column}) as {column}" if kind == "time" else column
        for column, kind in table.key
    )
    source = f"{quote_name(volume)}.main.{name}"
    rows = {
        "withdrawals": f"({latest_sql(source)})",
        "liquidity_provisions": f"{source} where {LISTED_PROVISIONS}",
        "orders": f"{source} where id is not null",
    }
    select = f"select {keys}, {row_sql(_ROWS[name].direct(tables[name]))} from {rows[name]}"  # noqa: S608
    # The table of orders lies in this order: sorting millions of rows again would be dear.
    return f"{select} order by {order}" if order else select


def latest_sql(withdrawals: str) -> str:
    """SQL for the last row of each withdrawal of a party, of those that can be listed."""
    return f"select * from {withdrawals} where {LISTED} qualify {LATEST}"  # noqa: S608 - ours


def _queries(con: Connection, volume: str) -> dict[str, str]:
    """The SQL that makes each lookup which has no pages."""
    main = f"{quote_name(volume)}.main"
    filters = (
        f"select '{table}.{column}' as key, bits from ({bits})"  # noqa: S608 - our own names
        for table, column in _FILTERED
        for bits in [filter_sql(con, f"{main}.{table}", column)]
    )
    times = (
        f"select '{table}' as key, min(epoch_us(vega_time)) as first, "  # noqa: S608 - ours
        f"max(epoch_us(vega_time)) as last from {rows}"
        for table, rows in (
            ("withdrawals", f"({latest_sql(f'{main}.withdrawals')})"),
            ("liquidity_provisions", f"{main}.liquidity_provisions where {LISTED_PROVISIONS}"),
        )
    )
    return {
        FILTERS: " union all ".join(filters),
        IDENTITIES: identities_sql(f"({latest_sql(f'{main}.withdrawals')})"),
        TIMES: " union all ".join(times),
        ZONES: zone_map_sql(f"{main}.orders", f"left(id, {ID_PREFIX})"),
    }


def identities_sql(rows: str) -> str:
    """SQL for the identities of withdrawals and when they were written, in microseconds."""
    return f"select {IDENTITY} as identity, epoch_us(vega_time) as written from {rows}"  # noqa: S608
