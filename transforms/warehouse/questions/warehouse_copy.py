"""A copy of the warehouse: one DuckDB file that needs nothing beside it, for whoever is elsewhere.

Under the names, comments and macros of `current.duckdb` it has tables instead of views, with the
rows of some segments of history and the whole current state. It names no file of the warehouse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.bounds import Bound
from transforms.coverage import difference, union
from transforms.duck import (
    Connection,
    check_folder,
    new_database,
    quote_name,
    quote_text,
    read_only_connection,
    working_connection,
)
from transforms.duck_files import remove_log
from transforms.errors import ConfigError, RangeError
from transforms.files import check_folder_place, commit_file
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.warehouse.files.catalog import SPAM_CAPTURES, Catalog
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.manifests.manifest import receipts_source, segments_source
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.range_choice import SegmentChoice, choose_range
from transforms.warehouse.views.catalog_columns import rounded_columns
from transforms.warehouse.views.catalog_views import (
    capture_tables,
    catalog_tables,
    manifests,
    view_names,
)
from transforms.warehouse.views.derived_views import derived_views
from transforms.warehouse.views.table_views import ViewedTable, empty_table, list_sql
from transforms.warehouse.warehouse import Warehouse

UNFINISHED = ".strata-copy-"
"""How folders beside a copy are named in which it is written; the next one removes killed ones."""

Progress = Callable[[int, int], object]
"""Called with how many tables are copied, and how many there are."""

_ABOUT = "The warehouse's snapshot that this file was copied from, and the blocks of its history."


def write_copy(
    warehouse: Warehouse,
    path: Path,
    blocks: BlockRange,
    tables: Sequence[str],
    progress: Progress = lambda _tables, _total: None,
) -> dict[str, int]:
    """Write a file with some tables, or all where none is named; returns the rows of each.

    Of tables of history it has the segments inside `blocks`. The file appears whole or not at all,
    in place of an earlier copy. Raises `ConfigError` where another file is there, or a table is
    unknown, `IntegrityError` where rows are lost: in a copy nobody could tell.
    """
    check_file(path)
    folder = path.absolute().parent
    sweep_scratch(folder, UNFINISHED)
    with warehouse.one_look(), scratch_folder(folder, UNFINISHED) as scratch:
        fresh, catalog = scratch / "copy.duckdb", warehouse.loaded_catalog()
        if losses := [loss for loss in catalog.snapshot.losses if loss.touches(blocks)]:
            raise LostRowsError(warehouse.describe(), losses)
        catalog = catalog.over(Extent(blocks))  # no more is fetched, or read, than need be
        there = view_names(catalog)
        if unknown := [name for name in tables if name not in there]:
            raise ConfigError(f"there is no table {unknown[0]!r}: take some of {', '.join(there)}")
        catalog = catalog.of_tables(tables or there)
        size = sum(volume.size for volume in catalog.snapshot.volumes)
        with (
            catalog.files.hold(catalog.snapshot.readable(), prove=True),
            working_connection(scratch, memory_limit=warehouse.backing.memory_limit) as con,
            new_database(con, fresh, "fresh", size),
        ):
            rows = _copy(con, catalog, tables or there, blocks, progress)
        remove_log(path)
        commit_file(fresh, path)
    return rows


def _copy(
    con: Connection,
    catalog: Catalog,
    names: Sequence[str],
    blocks: BlockRange,
    progress: Progress,
) -> dict[str, int]:
    """Copy into the attached `fresh`; returns the rows of each table."""
    tables = {table.name: table for table in catalog_tables(catalog)}
    rows: dict[str, int] = {}
    con.execute("use fresh; create schema exact; create schema strata")
    for count, name in enumerate(names, 1):
        if name in tables:
            main, *others = _table(tables[name], blocks)
        elif name == SPAM_CAPTURES:
            main, *others = capture_tables(catalog, list_sql, "table")
        else:
            main, *others = empty_table(name, "table")
        con.execute("begin")
        ((rows[name],),) = con.execute(main).fetchall()
        con.execute(";\n".join(others))
        con.execute("commit")
        progress(count, len(names))
    con.execute("begin")
    shapes = {name: table.shape for name, table in tables.items()}
    con.execute(";\n".join([*_records(catalog, names, blocks), *derived_views(shapes)]))
    con.execute("commit")
    con.execute("use memory")
    return rows


def _table(table: ViewedTable, blocks: BlockRange) -> Iterator[str]:
    """The statements for a table, of history with the rows of the segments in `blocks`."""
    source = table.source(list_sql, blocks)
    yield from table.main("table", source)
    if rounded_columns(table.name, table.shape.column_list()):
        # Here `exact` has more than `main`, and cannot be rendered from it.
        yield from table.exact("table", source)
    else:
        yield from table.exact("view", f"main.{quote_name(table.name)}")


def _records(catalog: Catalog, names: Sequence[str], blocks: BlockRange) -> Iterator[str]:
    """The statements for the tables of `strata`: what was loaded, and where it is from."""
    within = f"first_block between {blocks.first} and {blocks.last}"
    named, files = ", ".join(map(quote_text, names)), list_sql(manifests(catalog))
    yield f"create table strata.segments as from {segments_source(files)} where {within}"
    yield (
        f"create table strata.receipts as from {receipts_source(files)} "
        f"where {within} and table_name in ({named})"
    )
    yield (
        f"create table strata.copy as select {quote_text(catalog.snapshot.chain_id)} as chain_id, "
        f"{catalog.snapshot.number}::bigint as snapshot, {blocks.first}::bigint as first_block, "
        f"{blocks.last}::bigint as last_block"
    )
    yield f"comment on table strata.copy is {quote_text(_ABOUT)}"


def check_file(path: Path) -> None:
    """Refuse a place where no copy may be written. Raises `ConfigError`."""
    check_folder(path.absolute())
    check_folder_place(path.absolute().parent)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a file in it")
    if os.path.lexists(path) and not _is_copy(path):
        raise ConfigError(
            f"{path} is there and no copy of a warehouse: remove it, or name another file"
        )


def choose_segments(warehouse: Warehouse, start: Bound | None, end: Bound | None) -> SegmentChoice:
    """The segments that a copy from one bound to another has; see `choose_range`.

    Raises `RangeError` also where blocks between two heights are not loaded.
    """
    catalog = warehouse.loaded_catalog()
    choice = choose_range(catalog, start, end)
    if not start or not end or start.block is None or end.block is None:
        return choice
    blocks = BlockRange(start.block, end.block)
    for gap in difference((blocks,), union(catalog.blocks)):
        what = f"of blocks {blocks} not all are loaded"
        raise RangeError(f"{what}: {warehouse.describe()} lacks {gap}")
    return choice


def _is_copy(path: Path) -> bool:
    from transforms.duck_errors import Error

    with suppress(Error, FileNotFoundError), read_only_connection(path) as con:
        query = "from duckdb_tables() where (schema_name, table_name) = ('strata', 'copy')"
        return bool(con.execute(query).fetchall())
    return False
