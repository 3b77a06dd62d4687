"""A warehouse, opened to read from; see `strata.open`."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from exporters.locations import Locations, read_locations
from exporters.warehouse_place import site_warehouse
from strata.rows import Rows
from transforms.block_range import BlockRange
from transforms.bounds import lower_bound, rfc3339, upper_bound
from transforms.duck import quote_name, quote_text, set_up
from transforms.errors import ConfigError, RangeError
from transforms.tables.registry import known_table
from transforms.warehouse.manifests.shapes import Extent, Times
from transforms.warehouse.questions.queries import query_tables
from transforms.warehouse.views.catalog_views import view_names
from transforms.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import duckdb

Range = tuple[int, int]
Days = tuple[str, str]

_Part = tuple[Extent | None, frozenset[str] | None]
"""Which volumes and tables of a warehouse are asked; None: all."""

_ALL: _Part = (None, None)
_NEWEST = 10**9  # schema versions only grow
_BLOCKS = (
    "select min(vega_time), max(vega_time), min(_segment), max(_segment), "
    "bool_or(vega_time is null) from main.blocks"
)


def open_history(warehouse: str | Path | None) -> History:
    """See `strata.open`."""
    location = None if warehouse is None else str(warehouse)
    places = read_locations(Locations, warehouse=location)
    return History(site_warehouse(places))


class History:
    """The newest snapshot of a warehouse when it was opened, read-only, in UTC.

    Files are hashed when they are first asked for, unless that was done, and fetched from a bucket:
    those of the tables that a query names and that can hold the blocks or days. For `con`, and from
    a bucket for relations, these are all. A damaged one raises `IntegrityError`.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        """Raises `ConfigError` where nothing is loaded."""
        self._warehouse = warehouse
        self._lock = Lock()
        self._connections: dict[_Part, duckdb.DuckDBPyConnection] = {}
        self._stack = ExitStack()
        with warehouse.one_look():
            self._catalog = warehouse.loaded_catalog()
            if warehouse.in_folder:  # where all is there
                self._connections[_ALL] = self._stack.enter_context(warehouse.connect())

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's connection, with the views and macros of `current.duckdb`."""
        return self._connection(_ALL)

    @property
    def tables(self) -> list[str]:
        """The tables that there are, sorted."""
        return view_names(self._catalog)

    def sql(self, query: str) -> Rows:
        """The rows of any query."""
        return Rows(partial(self._shared, query), partial(self._cursor, query), query)

    def table(self, name: str, *, blocks: Range | None = None, days: Days | None = None) -> Rows:
        """The rows of a table: all, those of some blocks, or those between two days or times.

        Both ends are included. Raises `ConfigError` where there is no such table, `RangeError`
        where a range is none, or the table is no history and so has none.
        """
        if name not in self.tables:
            raise ConfigError(f"there is no table {name!r}: take one of {', '.join(self.tables)}")
        extent = _extent(blocks, days)
        if extent is not None:
            self._check_history(name, extent)
        where = [*self._over_blocks(name, extent), *_over_times(extent)]
        return self._rows(name, extent, *where)

    def close(self) -> None:
        """Close the connection; rows that were not taken yet cannot be taken any more."""
        self._stack.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _connection(self, part: _Part) -> duckdb.DuckDBPyConnection:
        """A connection in which this part of the warehouse can be asked; its files are proven."""
        catalog, (extent, tables) = self._catalog, part
        catalog = catalog if extent is None else catalog.over(extent)
        catalog = catalog if tables is None else catalog.of_tables(tables)
        self._warehouse.prove(catalog)
        with self._lock:
            for opened in (_ALL, part):
                if opened in self._connections:
                    return self._connections[opened]
            con = self._stack.enter_context(self._warehouse.connect(catalog))
            self._connections[part] = con
            return con

    def _cursor(self, query: str, extent: Extent | None = None) -> duckdb.DuckDBPyConnection:
        con = self._connection(self._part(query, extent)).cursor()
        set_up(con)
        con.execute("use current")
        return con

    def _shared(self, query: str, extent: Extent | None = None) -> duckdb.DuckDBPyConnection:
        """The connection to which relations belong."""
        part = self._part(query, extent) if self._warehouse.in_folder else _ALL
        return self._connection(part)

    def _part(self, query: str, extent: Extent | None) -> _Part:
        """The part that a query reads: in a folder, its tables' files of any blocks."""
        extent = None if self._warehouse.in_folder else extent
        return extent, query_tables(query, self.tables)

    def _rows(self, name: str, extent: Extent | None, *conditions: str) -> Rows:
        condition = " and ".join(conditions) or "true"
        query = f"select * from main.{quote_name(name)} where {condition}"  # noqa: S608
        con, cursor = (partial(make, query, extent) for make in (self._shared, self._cursor))
        return Rows(con, cursor, query)

    def _kinds(self, name: str) -> set[str]:
        """The kinds of volumes that have a table."""
        return {volume.kind for volume in self._catalog.snapshot.volumes if name in volume.shapes}

    def _check_history(self, name: str, extent: Extent) -> None:
        known = known_table(name, _NEWEST)
        kinds = self._kinds(name) or {"history" if known is None else known.kind}
        if "history" not in kinds or "vega_time" not in self._rows(name, extent).columns:
            raise RangeError(
                f"{name} is not a history but how things stand now, so it has no blocks and days: "
                "leave them out"
            )

    def _over_blocks(self, name: str, extent: Extent | None) -> list[str]:
        if extent is None or extent.blocks is None:
            return []
        blocks = extent.blocks
        query = f"{_BLOCKS} where height between {blocks.first} and {blocks.last}"
        cursor = self._cursor(query, extent)
        ((begin, end, lower, upper, is_odd),) = cursor.execute(query).fetchall()
        if lower is None:
            raise RangeError(f"the warehouse holds no block of {blocks.first} to {blocks.last}")
        times = (f"timestamptz {quote_text(str(moment))}" for moment in (begin, end))
        of_blocks = f"vega_time between {' and '.join(times)}" if begin else "false"
        if is_odd:  # the view has no such times
            of_blocks = f"({of_blocks} or vega_time is null)"
        if "state" in self._kinds(name):  # rows from before it was history have a later segment
            return [of_blocks]
        # Segments are what volumes can be skipped by.
        return [f"_segment between {lower} and {upper}", of_blocks]


def _over_times(extent: Extent | None) -> list[str]:
    if extent is None or extent.times is None:
        return []
    times = (f"timestamptz '{rfc3339(micros)}'" for micros in extent.times)
    return [f"vega_time between {' and '.join(times)}"]


def _extent(blocks: Range | None, days: Days | None) -> Extent | None:
    if blocks is None and days is None:
        return None
    if blocks is not None and not 0 <= blocks[0] <= blocks[1]:
        raise RangeError(f"blocks={blocks!r} is no range: give two heights, like (1, 5000)")
    return Extent(blocks and BlockRange(*blocks), days and _times(days))


def _times(days: Days) -> Times:
    first, last = lower_bound(str(days[0])), upper_bound(str(days[1]))
    if first.micros is None or last.micros is None or last.micros < first.micros:
        raise RangeError(
            f"days={days!r} is no range: give two days or times in UTC, like "
            "('2023-06-01', '2023-06-02')"
        )
    return first.micros, last.micros
