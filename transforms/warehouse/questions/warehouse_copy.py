"""A copy of the warehouse: one DuckDB file that needs nothing beside it, for whoever is elsewhere.

Under the names, comments and macros of `current.duckdb` it has tables instead of views, with the
rows of some segments of history and the whole current state. It names no file of the warehouse.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.bounds import Bound
from transforms.coverage import difference, union
from transforms.duck import (
    attached,
    check_folder,
    new_database,
    read_only_connection,
    working_connection,
)
from transforms.duck_files import remove_log
from transforms.errors import ConfigError, RangeError
from transforms.files import commit_file
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.copy_tables import Progress, copy_contents
from transforms.warehouse.questions.holdings import Holdings
from transforms.warehouse.questions.range_choice import SegmentChoice, choose_range
from transforms.warehouse.warehouse import Warehouse

UNFINISHED = ".strata-copy-"
"""How folders beside a copy are named in which it is written; the next one removes killed ones."""


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
        size = sum(volume.size for volume in catalog.volumes)
        with (
            warehouse.views(catalog) as views,
            working_connection(scratch, memory_limit=warehouse.backing.memory_limit) as con,
            attached(con, views.resolve(), "current", "(read_only)"),
            new_database(con, fresh, "fresh", size),
        ):
            rows = copy_contents(con, catalog, blocks, tables, progress)
        remove_log(path)
        commit_file(fresh, path)
    return rows


def check_file(path: Path) -> None:
    """Refuse a place where no copy may be written. Raises `ConfigError`."""
    check_folder(path.absolute())
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
    choice = choose_range(Holdings(catalog), start, end)
    if not start or not end or start.block is None or end.block is None:
        return choice
    blocks = BlockRange(start.block, end.block)
    for gap in difference((blocks,), union(catalog.blocks)):
        what = f"of blocks {blocks} not all are loaded"
        raise RangeError(f"{what}: {catalog.store.describe()} lacks {gap}")
    return choice


def _is_copy(path: Path) -> bool:
    from transforms.duck_errors import Error

    with suppress(Error, FileNotFoundError), read_only_connection(path) as con:
        query = "from duckdb_tables() where (schema_name, table_name) = ('strata', 'copy')"
        return bool(con.execute(query).fetchall())
    return False
