"""Lookups: small tables beside those of a volume, from which servers answer fastest.

In the schema `strata` of a volume, made from its finished tables and never exported:

order_filter        one row: which orders the volume may hold, as a Bloom filter of their ids
withdrawals_latest  of each withdrawal of a party the last row in this volume, oldest first
withdrawals_of      the same rows by party, each party's oldest first
<table>_places      a zone map: of every 2,048 rows of `orders` the least and the greatest id, of
                    those of `withdrawals_of` the party, of those of `withdrawals_latest` the time

A volume without them is answered from its tables: slower, and the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import duckdb

from transforms.duck import Connection, quote_name
from transforms.lookups.zone_maps import Range, ZoneMap, zone_map_sql
from transforms.sessions import Session

ORDER_FILTER = "order_filter"
WITHDRAWALS_LATEST = "withdrawals_latest"
WITHDRAWALS_OF = "withdrawals_of"
_ORDERS = "orders"
# Ids are compared by their beginnings, which take less memory and differ as well.
_PREFIX = 16

# Twelve bits an id and four of them set: one volume in 150 is asked in vain.
_BITS_PER_ID = 12
_LEAST_BITS = 64
_SLICES = (1, 9, 17, 25)
_SLICE_HEX = 8

_NEEDED = {
    ("orders", "id"),
    ("withdrawals", "id"),
    ("withdrawals", "party_id"),
    ("withdrawals", "vega_time"),
}

# Columns that would be taken for the numbers of the rows.
_HIDING = {("orders", "rowid"), ("withdrawals", "rowid")}

LATEST = (
    "row_number() over ("
    "partition by id, party_id order by vega_time desc, _segment desc, _row desc) = 1"
)
"""SQL of the last row of each withdrawal of a party."""


@dataclass(frozen=True, slots=True)
class OrderFilter:
    """Which orders a volume may hold: `in` is never wrong about one that it holds."""

    bits: bytes

    def __contains__(self, order_id: str) -> bool:
        digest = hashlib.md5(order_id.encode(), usedforsecurity=False).hexdigest()
        size = len(self.bits) * 8
        for start in _SLICES:
            place = int(digest[start - 1 : start - 1 + _SLICE_HEX], 16) % size
            if not self.bits[place >> 3] >> (7 - (place & 7)) & 1:
                return False
        return True


def write_lookups(con: Connection, volume: str) -> None:
    """Make the lookups of an attached volume of history, all of whose tables are written.

    A volume of current state has none, nor one whose segments lack a column that they need, or
    have one that hides the rows' numbers.
    """
    columns = con.execute(
        "select table_name, lower(column_name) from duckdb_columns() "
        "where database_name = $1 and schema_name = 'main'",
        [volume],
    ).fetchall()
    if not {*columns} >= _NEEDED or _HIDING.intersection(columns):
        return
    for name, query in _queries(con, volume).items():
        con.execute(f"create table {quote_name(volume)}.strata.{name} as {query}")


def prove_lookups(con: Connection, volume: str) -> str:
    """Make the lookups of an attached volume again; says what of them is wrong, "" if nothing."""
    held = con.execute(
        "select table_name from duckdb_tables() "
        "where database_name = $1 and schema_name = 'strata'",
        [volume],
    ).fetchall()
    if (ORDER_FILTER,) not in held:
        return ""
    for name, query in _queries(con, volume).items():
        # Which rows there are; that they lie in order makes them fast, not right.
        sums = [
            con.execute(f"select count(*), bit_xor(hash(_made)) from {rows} _made").fetchall()  # noqa: S608
            for rows in (f"{quote_name(volume)}.strata.{name}", f"({query})")
        ]
        if sums[0] != sums[1]:
            return f"the lookup {name} does not follow from its tables"
    return ""


def _queries(con: Connection, volume: str) -> dict[str, str]:
    """The SQL that makes each lookup, from the tables and the lookups before it."""
    main, strata = f"{quote_name(volume)}.main", f"{quote_name(volume)}.strata"
    return {
        ORDER_FILTER: _filter_sql(con, f"{main}.orders"),
        WITHDRAWALS_LATEST: f"select * from {main}.withdrawals qualify {LATEST} "  # noqa: S608
        "order by vega_time, id, party_id",
        WITHDRAWALS_OF: f"from {strata}.{WITHDRAWALS_LATEST} order by party_id, vega_time, id",
        _map_table(_ORDERS): zone_map_sql(f"{main}.{_ORDERS}", f"left(id, {_PREFIX})"),
        _map_table(WITHDRAWALS_OF): zone_map_sql(
            f"{strata}.{WITHDRAWALS_OF}", f"left(party_id, {_PREFIX})"
        ),
        _map_table(WITHDRAWALS_LATEST): zone_map_sql(f"{strata}.{WITHDRAWALS_LATEST}", "vega_time"),
    }


def _filter_sql(con: Connection, orders: str) -> str:
    ((ids,),) = con.execute(f"select count(distinct id) from {orders}").fetchall()  # noqa: S608
    size = max(_LEAST_BITS, (ids * _BITS_PER_ID + 7) // 8 * 8)
    places = ", ".join(
        f"('0x' || substr(digest, {start}, {_SLICE_HEX}))::ubigint % {size}" for start in _SLICES
    )
    return (
        f"select coalesce(bitstring_agg(place, 0, {size - 1}), "  # noqa: S608 - our own names
        f"repeat('0', {size})::bit)::blob as bits "
        f"from (select unnest([{places}])::bigint as place "
        f"from (select distinct md5(id) as digest from {orders}))"
    )


def _map_table(table: str) -> str:
    """The zone map of a table; its name, and its column `stretch`, are those of the file format."""
    return f"{table}_places"


@dataclass(frozen=True, slots=True)
class Lookups:
    """What is kept in memory of a volume's lookups; times are microseconds since 1970."""

    orders: OrderFilter
    order_map: ZoneMap[str]
    party_map: ZoneMap[str]
    time_map: ZoneMap[int]

    def rows_of_order(self, order_id: str) -> list[Range]:
        """The rows of `orders` among which are those of an order; none for most it has not."""
        return [*self.order_map.ranges(order_id[:_PREFIX])] if order_id in self.orders else []

    def rows_of_party(self, party_id: str) -> list[Range]:
        """The rows of `withdrawals_of` among which are those of a party."""
        return [*self.party_map.ranges(party_id[:_PREFIX])]


def read_lookups(session: Session, file: str) -> Lookups | None:
    """What an attached file has of lookups; None where it has none."""
    try:
        ((bits,),) = session.rows(f"select bits from {file}.strata.{ORDER_FILTER}")  # noqa: S608
    except duckdb.CatalogException:
        return None
    return Lookups(
        OrderFilter(bits),
        ZoneMap(_row_blocks(session, file, _ORDERS, "{}")),
        ZoneMap(_row_blocks(session, file, WITHDRAWALS_OF, "{}")),
        ZoneMap(_row_blocks(session, file, WITHDRAWALS_LATEST, "epoch_us({})")),
    )


def _row_blocks(session: Session, file: str, table: str, value: str) -> list[tuple[Any, Any]]:
    shown = ", ".join(value.format(name) for name in ("first", "last"))
    return [
        (first, last)
        for first, last in session.rows(
            f"select {shown} from {file}.strata.{_map_table(table)} order by stretch"  # noqa: S608
        )
    ]
