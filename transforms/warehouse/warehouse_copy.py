"""A copy of the warehouse: one DuckDB file that needs nothing beside it, for whoever is elsewhere.

Under the names, comments and macros of `current.duckdb` it has tables instead of views, with the
rows of some segments of history and the whole current state. It names no file of the warehouse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from transforms.block_range import BlockRange, contiguous_runs
from transforms.bounds import Bound, rfc3339
from transforms.duck import (
    Connection,
    attached,
    check_folder,
    quote_name,
    quote_text,
    read_only_connection,
    reporting,
)
from transforms.duck_files import remove_log
from transforms.errors import ConfigError, RangeError
from transforms.files import commit_file
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.catalog_columns import has_rounded
from transforms.warehouse.catalog_joins import joins_of
from transforms.warehouse.catalog_views import SPAM_CAPTURES, exact_view, shapes_shown, utc_macro
from transforms.warehouse.losses import LostRowsError
from transforms.warehouse.lost_files import LostFilesError, absent_files
from transforms.warehouse.range_choice import SegmentChoice, TimedWarehouse, choose_range
from transforms.warehouse.shapes import Extent, Shape
from transforms.warehouse.volumes import attach_options
from transforms.warehouse.warehouse import Warehouse

UNFINISHED = ".strata-copy"
"""The folder beside a copy where it is written; what a kill leaves there goes with the next one."""

_NAMED = 10  # of the runs of blocks that are loaded
_ABOUT = "The warehouse's generation that this file was copied from, and the blocks of its history."

Progress = Callable[[int, int], object]
"""Called with the rows that are copied, and how many there are, from another thread, too."""


def choose_segments(warehouse: Warehouse, extent: Extent | None) -> SegmentChoice:
    """The segments with the blocks, or else the times, of an extent; all loaded ones without one.

    Raises `RangeError` where none has them or blocks are not loaded, `IntegrityError` where rows
    of theirs are lost: in a copy nobody could tell.
    """
    index = TimedWarehouse(warehouse)
    catalog = index.catalog
    volumes = [v for v in catalog.volumes if not extent or v.kind == "state" or extent.reaches(v)]
    absent = absent_files(catalog.store, (volume.file for volume in volumes))
    if absent:
        raise LostFilesError(catalog.store, absent)
    ends: list[Bound | None] = [None, None]
    if extent and extent.blocks:
        ends = [Bound(str(at), block=at) for at in (extent.blocks.first, extent.blocks.last)]
    elif extent and extent.times:
        ends = [Bound(rfc3339(at), micros=at) for at in extent.times]
    choice = choose_range(index, *ends)
    losses = [loss for loss in catalog.document.losses if loss.touches(choice.blocks)]
    if losses:
        raise LostRowsError(catalog.store.describe(), losses)
    if extent and extent.blocks:
        _check_loaded(catalog, extent.blocks)
    return choice


def _check_loaded(catalog: Catalog, blocks: BlockRange) -> None:
    runs = [*contiguous_runs(catalog.blocks)]
    if not any(run.first <= blocks.first and blocks.last <= run.last for run in runs):
        more = f" and {len(runs) - _NAMED} more runs" if len(runs) > _NAMED else ""
        raise RangeError(
            f"of blocks {blocks} not all are loaded: {catalog.store.describe()} holds "
            f"{', '.join(map(str, runs[:_NAMED]))}{more}"
        )


def write_copy(
    warehouse: Warehouse,
    path: Path,
    blocks: BlockRange,
    tables: Sequence[str],
    progress: Progress = lambda _rows, _total: None,
) -> dict[str, int]:
    """Write a file with some tables, or all where none is named; returns the rows of each.

    Of tables of history it has the segments inside `blocks`, as `choose_segments` gave them. The
    file appears whole or not at all, in place of an earlier copy. Raises `ConfigError` where
    another file is there, or a table is unknown.
    """
    _check_place(warehouse, path)
    with warehouse.one_look(), _unfinished(path) as scratch:
        extent = Extent(blocks)
        catalog = warehouse.loaded_catalog().over(extent)
        fresh = scratch / "copy.duckdb"
        limit = warehouse.backing.memory_limit
        with (
            warehouse.views(extent) as views,
            read_only_connection(views, scratch=scratch, memory_limit=limit) as con,
        ):
            copied = _tables(con, catalog, blocks, _chosen(con, tables))
            size = sum(table.bytes for table in copied)
            with attached(con, fresh, "fresh", attach_options(size)):
                rows = _copy_rows(con, copied, progress)
                con.execute("begin")
                _copy_records(con, copied, blocks)
                _make_views(con, copied)
                _copy_comments(con)
                con.execute("commit")
        remove_log(path)
        commit_file(fresh, path)
    return rows


def _check_place(warehouse: Warehouse, path: Path) -> None:
    """Refuse a file that is the warehouse's, or is there and is no copy. Raises `ConfigError`."""
    check_folder(path.absolute())
    place = path.resolve()
    volumes = warehouse.backing.store.path("volumes")
    for folder in filter(None, (warehouse.cache, volumes and volumes.parent)):
        if place.is_relative_to(folder.resolve()):
            raise ConfigError(f"{path} is in the warehouse's own folder: name a file elsewhere")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a file in it")
    if os.path.lexists(path) and not _is_copy(path):
        raise ConfigError(
            f"{path} is there and no copy of a warehouse: remove it, or name another file"
        )


def _is_copy(path: Path) -> bool:
    with suppress(duckdb.Error, FileNotFoundError), read_only_connection(path) as con:
        query = "from duckdb_tables() where (schema_name, table_name) = ('strata', 'copy')"
        return bool(con.execute(query).fetchall())
    return False


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A folder on the disk of `path` for what is unfinished; removes what a kill left there."""
    parent = path.absolute().parent / UNFINISHED
    sweep_scratch(parent)
    try:
        with scratch_folder(parent) as scratch:
            yield scratch
    finally:
        with suppress(OSError):  # another copy is written there
            parent.rmdir()


@dataclass(frozen=True, slots=True)
class _Table:
    """A table to copy: which rows, as SQL; how many there are, and how many bytes of CSV.

    `shape` is None where it comes from no segment. Bytes are those of history.
    """

    name: str
    where: str
    rows: int
    bytes: int
    shape: Shape | None

    @property
    def is_rounded(self) -> bool:
        """Whether `exact` has more of it than `main`."""
        return self.shape is not None and has_rounded(self.name, self.shape)


def _chosen(con: Connection, names: Sequence[str]) -> list[str]:
    """The tables of these names, all where there is none. Raises `ConfigError` for unknown ones."""
    views = "duckdb_views() where database_name = 'current' and schema_name = 'main'"
    query = f"select view_name from {views} and not internal order by 1"  # noqa: S608 - ours
    there = [name for (name,) in con.execute(query).fetchall()]
    for name in names:
        if name not in there:
            raise ConfigError(f"there is no table {name!r}: take some of {', '.join(there)}")
    return [name for name in there if not names or name in names]


def _tables(
    con: Connection, catalog: Catalog, blocks: BlockRange, names: Sequence[str]
) -> list[_Table]:
    shapes = shapes_shown(catalog.history(), catalog.states())
    within = f"between {blocks.first} and {blocks.last}"
    sums = ", ".join(
        f"coalesce(sum({column}) filter (first_block {within}), 0)::bigint"
        for column in ("rows", "bytes")
    )
    query = f"select table_name, min(first_block), {sums} from strata.receipts group by table_name"  # noqa: S608
    history = {name: numbers for name, *numbers in con.execute(query).fetchall()}
    tables = []
    for name in names:
        if name in history:
            first, rows, size = history[name]
            # What it was as current state, before a schema version made it history, stays whole.
            where = f"_segment {within} or _segment < {first}"
        else:
            count = f"select count(*), 0 from main.{quote_name(name)}"  # noqa: S608 - quoted
            where, ((rows, size),) = "true", con.execute(count).fetchall()
        tables.append(_Table(name, where, rows, size, shapes.get(name)))
    return tables


def _copy_rows(con: Connection, tables: Sequence[_Table], progress: Progress) -> dict[str, int]:
    """Copy `main`, and of `exact` what cannot be rendered from it; returns the rows of `main`."""
    for schema in ("exact", "strata"):
        con.execute(f"create schema fresh.{schema}")
    parts = [("main", table) for table in tables]
    parts += [("exact", table) for table in tables if table.is_rounded]
    total, done = sum(table.rows for _, table in parts), 0
    rows: dict[str, int] = {}
    for schema, table in parts:
        name = f"{schema}.{quote_name(table.name)}"

        def report(share: float, done: int = done, of: int = table.rows) -> None:
            progress(done + int(share * of), total)

        with reporting(con, report):
            statement = f"create table fresh.{name} as from {name} where {table.where}"
            ((count,),) = con.execute(statement).fetchall()
        rows.setdefault(table.name, count)
        done += table.rows
        progress(done, total)
    return rows


def _copy_records(con: Connection, tables: Sequence[_Table], blocks: BlockRange) -> None:
    """Write the tables of `strata`: what was loaded, which cells do not fit, where it is from."""
    within = f"first_block between {blocks.first} and {blocks.last}"
    names = [table.name for table in tables]
    listed = ", ".join(map(quote_text, names))
    statements = [
        f"segments as from strata.segments where {within}",
        f"receipts as from strata.receipts where {within} and table_name in ({listed})",
        "copy as select chain_id, generation, "  # noqa: S608 - numbers
        f"{blocks.first}::bigint as first_block, {blocks.last}::bigint as last_block "
        "from strata.generation",
        _unfit(tables),
    ]
    if SPAM_CAPTURES in names:
        statements.append("refused_captures as from strata.refused_captures")
    for statement in statements:
        con.execute(f"create table fresh.strata.{statement}")
    con.execute(f"comment on table fresh.strata.copy is {quote_text(_ABOUT)}")


def _unfit(tables: Sequence[_Table]) -> str:
    cells = [
        f"select {quote_text(table.name)} as table_name, unnest(map_keys(_raw)) as column_name "  # noqa: S608
        f"from fresh.main.{quote_name(table.name)} where _raw is not null"
        for table in tables
        if table.shape and table.shape.raw
    ]
    nothing = "select ''::varchar as table_name, ''::varchar as column_name where false"
    return (
        "unfit as select table_name, column_name, count(*) as rows "  # noqa: S608 - quoted
        f"from ({' union all '.join([nothing, *cells])}) group by all order by all"
    )


def _make_views(con: Connection, tables: Sequence[_Table]) -> None:
    """Make the macros, the other views of `exact`, and those for joins, over the copied tables."""
    con.execute("use fresh")
    columns: dict[str, set[str]] = {}
    for table in tables:
        if table.shape is None:
            continue
        columns[table.name] = {*table.shape.columns}
        if not table.is_rounded:
            con.execute(exact_view(table.name, table.shape, f"main.{quote_name(table.name)}"))
    for statement in (*utc_macro(), *joins_of(columns)):
        con.execute(statement)
    con.execute("use current")


def _copy_comments(con: Connection) -> None:
    """Give tables, views and columns the comments that they have in the catalog."""
    kinds = {
        (schema, name): kind
        for kind in ("table", "view")
        for schema, name in con.execute(
            f"select schema_name, {kind}_name from duckdb_{kind}s() where database_name = 'fresh' "  # noqa: S608
            "and not internal"
        ).fetchall()
    }
    views = "select schema_name, view_name, null, comment from duckdb_views()"
    columns = "select schema_name, table_name, column_name, comment from duckdb_columns()"
    for query in (views, columns):
        rows = con.execute(f"{query} where database_name = 'current' and comment is not null")
        for schema, name, column, comment in rows.fetchall():
            if kind := kinds.get((schema, name)):
                place = f"fresh.{schema}.{quote_name(name)}"
                what = f"column {place}.{quote_name(column)}" if column else f"{kind} {place}"
                con.execute(f"comment on {what} is {quote_text(comment)}")
