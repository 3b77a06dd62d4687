"""A copy of the warehouse: one DuckDB file that needs nothing beside it, for whoever is elsewhere.

Under the names, comments and macros of `current.duckdb` it has tables instead of views, with the
rows of some segments of history and the whole current state. It names no file of the warehouse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.bounds import Bound
from transforms.coverage import difference, union
from transforms.duck import (
    Connection,
    attached,
    check_folder,
    new_database,
    quote_name,
    quote_text,
    read_only_connection,
    working_connection,
)
from transforms.duck_files import remove_log
from transforms.errors import ConfigError, RangeError
from transforms.files import commit_file
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.warehouse.files.catalog import SPAM_CAPTURES
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.manifests.shapes import Extent, Shape
from transforms.warehouse.questions.holdings import Holdings
from transforms.warehouse.questions.range_choice import SegmentChoice, choose_range
from transforms.warehouse.views.catalog_columns import rounded_columns
from transforms.warehouse.views.catalog_views import table_shapes, view_names
from transforms.warehouse.views.derived_views import derived_views
from transforms.warehouse.views.table_views import exact_view
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
        there, size = view_names(catalog), sum(volume.size for volume in catalog.volumes)
        if unknown := [name for name in tables if name not in there]:
            raise ConfigError(f"there is no table {unknown[0]!r}: take some of {', '.join(there)}")
        names = [*(tables or there)]
        shapes = {name: shape for name, shape in table_shapes(catalog).items() if name in names}
        with (
            warehouse.views(catalog) as views,
            working_connection(scratch, memory_limit=warehouse.backing.memory_limit) as con,
            attached(con, views.resolve(), "current", "(read_only)"),
            new_database(con, fresh, "fresh", size),
        ):
            rows = _copy(con, names, shapes, blocks, progress)
        remove_log(path)
        commit_file(fresh, path)
    return rows


def _copy(
    con: Connection,
    names: Sequence[str],
    shapes: Mapping[str, Shape],
    blocks: BlockRange,
    progress: Progress,
) -> dict[str, int]:
    """Copy from the attached `current` into the attached `fresh`; returns the rows of each table.

    Rows are read by the views of the catalog alone, wherever its files lie and whatever they are.
    """
    con.execute("use current; create schema fresh.exact; create schema fresh.strata")
    # Of these `exact` has more than `main`, so that it cannot be rendered from it.
    exact = [name for name, shape in shapes.items() if rounded_columns(name, shape.column_list())]
    rows = _copy_rows(con, names, exact, blocks, progress)
    views = [
        exact_view(name, shape, f"main.{quote_name(name)}")
        for name, shape in shapes.items()
        if name not in exact
    ]
    con.execute("begin")
    con.execute(";\n".join(_records(names, blocks)))
    con.execute("use fresh")
    con.execute(";\n".join([*views, *derived_views(shapes)]))
    _copy_comments(con)
    con.execute("commit")
    con.execute("use memory")
    return rows


def _copy_rows(
    con: Connection,
    names: Sequence[str],
    exact: Sequence[str],
    blocks: BlockRange,
    progress: Progress,
) -> dict[str, int]:
    """Copy `main`, and of these tables `exact`, too.

    What a table had as current state, before a schema version made it history, stays whole.
    """
    receipts = "select table_name, min(first_block) from strata.receipts group by 1"
    first_blocks = dict(con.execute(receipts).fetchall())
    relations = [*(("main", name) for name in names), *(("exact", name) for name in exact)]
    rows: dict[str, int] = {}
    for count, (schema, name) in enumerate(relations, 1):
        condition = "true"
        if name in first_blocks:
            within = f"_segment between {blocks.first} and {blocks.last}"
            condition = f"(_segment < {first_blocks[name]} or {within})"
        table = f"{schema}.{quote_name(name)}"
        copied = con.execute(f"create table fresh.{table} as from {table} where {condition}")
        ((rows[name],),) = copied.fetchall()
        progress(count, len(relations))
    return rows


def _records(names: Collection[str], blocks: BlockRange) -> Iterator[str]:
    """The statements for the tables of `strata`: what was loaded, and where it is from."""
    within = f"first_block between {blocks.first} and {blocks.last}"
    listed = f"table_name in ({', '.join(map(quote_text, names))})"
    create = "create table fresh.strata"
    yield f"{create}.segments as from strata.segments where {within}"
    yield f"{create}.receipts as from strata.receipts where {within} and {listed}"
    yield (
        f"{create}.copy as select chain_id, snapshot, {blocks.first}::bigint as first_block, "  # noqa: S608 - numbers
        f"{blocks.last}::bigint as last_block from strata.snapshot"
    )
    yield f"comment on table fresh.strata.copy is {quote_text(_ABOUT)}"
    if SPAM_CAPTURES in names:
        yield f"{create}.refused_captures as from strata.refused_captures"


def _copy_comments(con: Connection) -> None:
    """Give tables, views and columns the comments that they have in the catalog."""
    kinds = {
        (schema, name): kind
        for kind in ("table", "view")
        for schema, name in con.execute(
            f"select schema_name, {kind}_name from duckdb_{kind}s() "  # noqa: S608
            "where database_name = 'fresh' and not internal"
        ).fetchall()
    }
    comments = con.execute(
        "select schema_name, view_name, null, comment from duckdb_views() "
        "where database_name = 'current' and comment is not null union all "
        "select schema_name, table_name, column_name, comment from duckdb_columns() "
        "where database_name = 'current' and comment is not null"
    )
    for schema, name, column, comment in comments.fetchall():
        if kind := kinds.get((schema, name)):
            place = f"{schema}.{quote_name(name)}"
            what = f"column {place}.{quote_name(column)}" if column else f"{kind} {place}"
            con.execute(f"comment on {what} is {quote_text(comment)}")


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
