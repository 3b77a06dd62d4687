"""A copy of the warehouse: one DuckDB file that needs nothing beside it, for whoever is elsewhere.

Under the names, comments and macros of `current.duckdb` it has tables instead of views, with the
rows of some segments of history and the whole current state. It names no file of the warehouse.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import duckdb

from transforms.block_range import BlockRange, contiguous_runs
from transforms.bounds import Bound, rfc3339
from transforms.duck import check_folder, new_database, read_only_connection
from transforms.duck_files import remove_log
from transforms.errors import ConfigError, RangeError
from transforms.files import commit_file
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.lost_files import LostFilesError, absent_files
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.copy_tables import (
    Progress,
    chosen_names,
    copied_tables,
    copy_comments,
    copy_records,
    copy_rows,
    make_views,
)
from transforms.warehouse.questions.range_choice import SegmentChoice, TimedWarehouse, choose_range
from transforms.warehouse.warehouse import Warehouse

UNFINISHED = ".strata-copy-"
"""How folders beside a copy are named in which it is written; the next one removes killed ones."""


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
    folder = path.absolute().parent
    sweep_scratch(folder, UNFINISHED)
    with warehouse.one_look(), scratch_folder(folder, UNFINISHED) as scratch:
        extent = Extent(blocks)
        catalog = warehouse.loaded_catalog().over(extent)
        fresh = scratch / "copy.duckdb"
        limit = warehouse.backing.memory_limit
        with (
            warehouse.views(extent) as views,
            read_only_connection(views, scratch=scratch, memory_limit=limit) as con,
        ):
            copied = copied_tables(con, catalog, blocks, chosen_names(con, tables))
            size = sum(table.bytes for table in copied)
            with new_database(con, fresh, "fresh", size):
                rows = copy_rows(con, copied, progress)
                con.execute("begin")
                copy_records(con, copied, blocks)
                make_views(con, copied)
                copy_comments(con)
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


_NAMED = 10  # of the runs of blocks that are loaded


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
    losses = [loss for loss in catalog.snapshot.losses if loss.touches(choice.blocks)]
    if losses:
        raise LostRowsError(catalog.store.describe(), losses)
    if extent and extent.blocks:
        _check_loaded(catalog, extent.blocks)
    return choice


def _check_loaded(catalog: Catalog, blocks: BlockRange) -> None:
    runs = [*contiguous_runs(catalog.blocks)]
    if not any(run.holds(blocks) for run in runs):
        more = f" and {len(runs) - _NAMED} more runs" if len(runs) > _NAMED else ""
        raise RangeError(
            f"of blocks {blocks} not all are loaded: {catalog.store.describe()} holds "
            f"{', '.join(map(str, runs[:_NAMED]))}{more}"
        )
