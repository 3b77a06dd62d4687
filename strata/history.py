"""A warehouse, opened to read from; see `strata.open`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from exporters.locations import Locations, read_locations
from strata.rows import Rows
from transforms.bounds import lower_bound, rfc3339, upper_bound
from transforms.duck import quote_name, quote_text, set_up
from transforms.errors import ConfigError, RangeError
from transforms.tables.registry import known_table
from transforms.warehouse.warehouse_address import open_warehouse

if TYPE_CHECKING:
    import duckdb

Range = tuple[int, int]
Days = tuple[str, str]

_NEWEST = 10**9  # schema versions only grow
_BLOCKS = "select min(vega_time), max(vega_time), min(_segment), max(_segment) from main.blocks"


def open_history(warehouse: str | Path | None) -> History:
    """See `strata.open`."""
    location = None if warehouse is None else str(warehouse)
    places = read_locations(Locations, warehouse=location)
    options = {"cache_bytes": places.cache_bytes, "options": places.store_options}
    source = open_warehouse(places.warehouse, places.cache, **options)  # type: ignore[arg-type]
    with ExitStack() as stack:
        con = stack.enter_context(source.connect())
        return History(con, stack.pop_all())


class History:
    """The newest generation of a warehouse when it was opened, read-only, in UTC."""

    def __init__(self, con: duckdb.DuckDBPyConnection, stack: ExitStack) -> None:
        """`stack` is closed with it."""
        self._con = con
        self._stack = stack

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's connection, with the views and macros of `current.duckdb`."""
        return self._con

    @property
    def tables(self) -> list[str]:
        """The tables that there are, sorted."""
        views = self._cursor().sql(
            "select view_name from duckdb_views() "
            "where schema_name = 'main' and database_name = 'current' and not internal order by 1"
        )
        return [name for (name,) in views.fetchall()]

    def sql(self, query: str) -> Rows:
        """The rows of any query."""
        return Rows(self._con, self._cursor, query)

    def table(self, name: str, *, blocks: Range | None = None, days: Days | None = None) -> Rows:
        """The rows of a table: all, those of some blocks, or those between two days or times.

        Both ends are included. Raises `ConfigError` where there is no such table, `RangeError`
        where a range is none, or the table is no history and so has none.
        """
        if name not in self.tables:
            raise ConfigError(f"there is no table {name!r}: take one of {', '.join(self.tables)}")
        where = " and ".join([*self._over_blocks(name, blocks), *self._over_days(name, days)])
        query = f"select * from main.{quote_name(name)} where {where or 'true'}"  # noqa: S608
        return Rows(self._con, self._cursor, query)

    def close(self) -> None:
        """Close the connection; rows that were not taken yet cannot be taken any more."""
        self._stack.close()

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        con = self._con.cursor()
        set_up(con)
        con.execute("use current")
        return con

    def _over_blocks(self, name: str, blocks: Range | None) -> list[str]:
        if blocks is None:
            return []
        first, last = blocks
        if not 0 <= first <= last:
            raise RangeError(f"blocks={blocks!r} is no range: give two heights, like (1, 5000)")
        self._check_history(name)
        query = f"{_BLOCKS} where height between $1 and $2"
        ((begin, end, lower, upper),) = self._cursor().execute(query, [first, last]).fetchall()
        if lower is None:
            raise RangeError(f"the warehouse holds no block of {first} to {last}")
        # Segments are what volumes can be skipped by; the times are those of the very blocks.
        times = (f"timestamptz {quote_text(moment.isoformat())}" for moment in (begin, end))
        return [
            f"_segment between {lower} and {upper}",
            f"vega_time between {' and '.join(times)}",
        ]

    def _over_days(self, name: str, days: Days | None) -> list[str]:
        if days is None:
            return []
        first, last = lower_bound(str(days[0])), upper_bound(str(days[1]))
        if first.micros is None or last.micros is None or last.micros < first.micros:
            raise RangeError(
                f"days={days!r} is no range: give two days or times in UTC, like "
                "('2023-06-01', '2023-06-02')"
            )
        self._check_history(name)
        times = (f"timestamptz '{rfc3339(micros)}'" for micros in (first.micros, last.micros))
        return [f"vega_time between {' and '.join(times)}"]

    def _check_history(self, name: str) -> None:
        table_info = known_table(name, _NEWEST)
        is_history = table_info is None or table_info.kind == "history"
        if not is_history or "vega_time" not in self.table(name).columns:
            raise RangeError(
                f"{name} is not a history but how things stand now, so it has no blocks and days: "
                "leave them out"
            )
