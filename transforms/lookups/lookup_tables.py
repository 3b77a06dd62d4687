"""Lookups: what an index file has, from which servers answer fastest.

Made from the finished data files of a run of segments, or from a current state:

withdrawals_by_party    of each withdrawal of a party the last row in this volume, in pages
withdrawals_by_time     the same rows by time
withdrawals_by_id       the same rows by id
provisions_by_market    the rows of `liquidity_provisions` in pages
provisions_by_party     the same rows by party
orders_by_id            the rows of `orders` in pages
oracle_data_by_spec     the rows of `oracle_data` for each spec that they matched
oracle_data_by_time     of the rows with the same specs and data the latest in this volume
signatures_by_id        the rows of `node_signatures` in pages
facts                   `tables`: of which tables it has rows, and the first and the last time of
                        those that are listed by time; `highs`, `lows`, `written`: of withdrawals
                        and oracle data the MD5 of what tells rows apart, and the time; of tables
                        in pages whose keys begin with a text the filter of these texts

Rows without a place in a listing, which no network writes, are in none of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import orjson

from transforms.duck import Connection
from transforms.lookups import oracle_rows
from transforms.lookups.identities import identity_facts
from transforms.lookups.index_file import TABLES, IndexFile, filter_fact, read_fact, write_fact
from transforms.lookups.key_pages import PageTable, prove_pages, row_sql, write_pages
from transforms.lookups.row_columns import (
    ORDER,
    PROVISION,
    SIGNATURE,
    WITHDRAWAL,
    RowColumns,
    TableColumns,
)
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
ORACLE_BY_SPEC = PageTable("oracle_data_by_spec", (("spec_id", "text"), ("vega_time", "time")))
ORACLE_BY_TIME = PageTable("oracle_data_by_time", (("vega_time", "time"),))
SIGNATURES = PageTable("signatures_by_id", (("resource_id", "text"),))

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

_ROWS: Mapping[str, RowColumns] = {
    "orders": ORDER,
    "withdrawals": WITHDRAWAL,
    "liquidity_provisions": PROVISION,
    "node_signatures": SIGNATURE,
}
PAGES = {
    BY_PARTY: ("withdrawals", "party_id, vega_time, id"),
    BY_TIME: ("withdrawals", "vega_time, id, party_id"),
    BY_ID: ("withdrawals", "id, vega_time, party_id"),
    PROVISIONS_BY_MARKET: ("liquidity_provisions", "market_id, vega_time, id, _segment, _row"),
    PROVISIONS_BY_PARTY: ("liquidity_provisions", "party_id, vega_time, id, _segment, _row"),
    ORDERS: ("orders", "id, vega_time, seq_num, _segment, _row"),
    ORACLE_BY_SPEC: ("oracle_data", "spec_id, vega_time, signers, seq_num"),
    ORACLE_BY_TIME: ("oracle_data", "vega_time, signers, seq_num"),
    SIGNATURES: ("node_signatures", "resource_id, sig"),
}
NEEDED: Mapping[str, tuple[str, ...]] = {
    "orders": ("id", "vega_time", "version", "seq_num"),
    "withdrawals": ("id", "party_id", "vega_time"),
    "liquidity_provisions": ("id", "party_id", "market_id", "vega_time"),
    "oracle_data": ("vega_time", "signers", "seq_num"),
    "oracle_data_oracle_specs": ("vega_time", "seq_num", "spec_id"),
    "node_signatures": ("resource_id", "sig"),
}
"""The columns without which a table's rows cannot be found or distinguished."""
_CONDITIONS = {
    "withdrawals": "true",
    "liquidity_provisions": LISTED_PROVISIONS,
    "orders": "id is not null",
    "node_signatures": "resource_id is not null and sig is not null",
}
# In the connection's own database, which all its cursors see.
_LATEST_TABLE = "memory.main.latest_withdrawals"
_LISTED_BY_TIME = frozenset(("withdrawals", "liquidity_provisions", "oracle_data"))


@dataclass(frozen=True, slots=True)
class LookupSource:
    """A table of which lookups are made: its columns, and SQL for its rows with these.

    Most tables of a small segment have no rows, as `is_empty` says: nothing is asked of them.
    """

    table: str
    columns: Sequence[Column]
    rows: str
    is_empty: bool = False

    @property
    def table_columns(self) -> TableColumns:
        """Its columns, any of which may have texts in `_raw`."""
        names = [column.name for column in self.columns]
        return TableColumns.of(names, names)


def write_lookups(
    con: Connection, file: sqlite3.Connection, sources: Mapping[str, LookupSource]
) -> bool:
    """Make the lookups of a volume's tables in a new index file.

    Returns whether there are any: none of tables that lack a column that they need.
    """
    tables = _tables(sources)
    if not tables:
        return False
    with _latest_rows(con, sources, tables) as prepared:
        for page_table, (table, _) in PAGES.items():
            if table in tables:
                bits = write_pages(con, file, page_table, _rows_sql(page_table, prepared))
                if page_table.has_text_keys:
                    write_fact(file, filter_fact(page_table), bits)
        for name, body in _facts(con, prepared, tables).items():
            write_fact(file, name, body)
    return True


def prove_lookups(
    con: Connection, file: sqlite3.Connection, sources: Mapping[str, LookupSource]
) -> str:
    """Make the lookups of an index file again; says what is wrong, "" if nothing is."""
    tables = _tables(sources)
    if not tables:
        return "no lookups follow from these tables"
    with _latest_rows(con, sources, tables) as prepared:
        for page_table, (table, _) in PAGES.items():
            if table not in tables:
                continue
            bits = prove_pages(con, file, page_table, _rows_sql(page_table, prepared))
            is_filtered = page_table.has_text_keys
            if bits is None or (is_filtered and read_fact(file, filter_fact(page_table)) != bits):
                return f"the lookup {page_table.name} does not follow from its tables"
        for name, body in _facts(con, prepared, tables).items():
            if read_fact(file, name) != body:
                return f"the lookup {name} does not follow from its tables"
    return ""


@contextmanager
def _latest_rows(
    con: Connection, sources: Mapping[str, LookupSource], tables: Sequence[str]
) -> Iterator[Mapping[str, LookupSource]]:
    """The tables with the last row of each withdrawal of a party in the place of all of them.

    Three page tables and the facts are made of these, so they are looked for once. The table is
    gone afterwards; where a statement fails, so is the connection.
    """
    source = sources.get("withdrawals")
    if source is None or source.is_empty or "withdrawals" not in tables:
        yield sources
        return
    con.execute(
        f"create or replace table {_LATEST_TABLE} as select * from {source.rows} "  # noqa: S608
        f"where {LISTED} qualify {LATEST}"
    )
    yield {**sources, "withdrawals": replace(source, rows=_LATEST_TABLE)}
    con.execute(f"drop table {_LATEST_TABLE}")


def times_of(index: IndexFile, table: str) -> tuple[int, int] | None:
    """The first and the last time of a table's rows in an index file, in microseconds.

    None where it has none. Raises `UnreadableFilesError`.
    """
    times = index.tables[table]
    return (times[0], times[1]) if times else None


def _tables(sources: Mapping[str, LookupSource]) -> list[str]:
    """The tables of which lookups are made."""
    paged = dict.fromkeys(table for table, _ in PAGES.values())
    return [table for table in paged if _is_suited(sources, table)]


def _is_suited(sources: Mapping[str, LookupSource], table: str) -> bool:
    """Whether a table is there, with the columns that its lookups need."""
    return table in sources and all(map(sources[table].table_columns.has, NEEDED[table]))


def _rows_sql(page_table: PageTable, sources: Mapping[str, LookupSource]) -> str:
    """SQL for the rows of a page table, as `write_pages` wants them."""
    table, order = PAGES[page_table]
    if sources[table].is_empty:
        return ""
    keys = ", ".join(
        f"epoch_us({column}) as {column}" if kind == "time" else column
        for column, kind in page_table.key
    )
    if table == "oracle_data":
        of_spec = page_table is ORACLE_BY_SPEC
        select = oracle_rows.matches_sql if of_spec else oracle_rows.latest_sql
        rows = f"({select(_oracle_sql(sources))}) where true"
        shown = f"{oracle_rows.SHOWN}, spec_id" if of_spec else oracle_rows.SHOWN
    else:
        rows = _listed_rows(table, sources)
        shown = _ROWS[table].direct(sources[table].table_columns)
    return f"select {keys}, {row_sql(shown)} from {rows} order by {order}"  # noqa: S608 - ours


def _listed_rows(table: str, sources: Mapping[str, LookupSource]) -> str:
    """SQL for the rows of a table that have a place in its pages."""
    rows = sources[table].rows
    if table == "oracle_data":
        return f"({_oracle_sql(sources)}) where true"
    return f"{rows} where {_CONDITIONS[table]}"


def _oracle_sql(sources: Mapping[str, LookupSource]) -> str:
    """SQL for the rows of oracle data with their specs; see `oracle_rows`."""
    data, name = sources["oracle_data"], "oracle_data_oracle_specs"
    specs = sources[name].rows if _is_suited(sources, name) else None
    return oracle_rows.oracle_rows_sql(data.table_columns, data.rows, specs)


def _identities_sql(table: str, sources: Mapping[str, LookupSource]) -> str:
    """SQL for what tells a table's rows apart, and for their times; "" without rows."""
    if sources[table].is_empty:
        return ""
    if table == "oracle_data":
        return oracle_rows.identities_sql(_oracle_sql(sources))
    times = "epoch_us(vega_time) as written"
    return f"select {IDENTITY} as identity, {times} from {sources[table].rows}"  # noqa: S608


def _facts(
    con: Connection, sources: Mapping[str, LookupSource], tables: Sequence[str]
) -> dict[str, bytes]:
    """What lookups have besides pages."""
    times = {
        table: first_and_last(con, _listed_rows(table, sources))
        for table in _LISTED_BY_TIME.intersection(tables)
        if not sources[table].is_empty
    }
    facts = {TABLES: orjson.dumps({table: times.get(table) for table in tables})}
    for table in ("withdrawals", "oracle_data"):
        if table in tables:
            facts |= identity_facts(con, table, _identities_sql(table, sources))
    return facts


def first_and_last(con: Connection, rows: str) -> tuple[int, int] | None:
    """The first and the last `vega_time` of rows (SQL), in microseconds; None without any."""
    ((first, last),) = con.execute(
        f"select epoch_us(min(vega_time)), epoch_us(max(vega_time)) from {rows}"  # noqa: S608 - ours
    ).fetchall()
    return None if first is None else (first, last)
