"""Taking published files into a warehouse: proven by receipts, added to the log as a load adds.

A file of the lake that has just the rows of a run of segments becomes the warehouse's data file as
it is; of a part of one, or of several, a data file is written. Either way every CSV is rendered
from it and held against its receipt before anything is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from transforms.duck import Connection, new_database, quote_name
from transforms.errors import IntegrityError
from transforms.lake.parquet_rows import readable_file
from transforms.tables.file_columns import file_columns
from transforms.warehouse.checks.file_check import rows_problem, types_problem
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.rendering import rendering_problem
from transforms.warehouse.load.segment_checks import raw_cells
from transforms.warehouse.load.volume_files import store_volume
from transforms.warehouse.manifests.data_files import ALL_TABLES, rows_sql
from transforms.warehouse.manifests.manifest import manifest_receipts, manifest_segments
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import shapes_of
from transforms.warehouse.merge.compaction import write_joined


def take_run(
    backing: Backing,
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
    files: Mapping[str, Sequence[Path]],
) -> None:
    """Add a run of segments, of which the warehouse has none, with its receipts.

    `files` are those of each table with rows, ascending; one that becomes a data file is moved.
    What they hold was fit to be published when it was. Raises `IntegrityError` where they do not
    render to what the receipts say.
    """
    data: dict[str, Path] = {}
    by_table = sorted(receipts, key=lambda receipt: (receipt.table, receipt.blocks))
    with backing.working() as (con, scratch):
        for table, group in groupby(by_table, key=attrgetter("table")):
            its, paths = [*group], files.get(table, ())
            if paths:
                with readable_file(paths[0], scratch):
                    data[table] = _data_file(con, its, paths, scratch)
            elif problem := rendering_problem(con, None, its, scratch):
                raise IntegrityError(problem)
        volume = store_volume(backing, con, backing.log.begin(), data, segments, by_table)
    chain_id = segments[0].name.chain_id
    backing.log.commit(lambda newest: newest.with_added(chain_id, [volume]))


def _data_file(
    con: Connection, receipts: Sequence[Receipt], files: Sequence[Path], scratch: Path
) -> Path:
    """A proven file of just the rows and columns of a table's receipts: a published or a new one.

    Raises `IntegrityError` where a column is of another type, or a CSV is not what it should be.
    """
    (shape,), table, path = shapes_of(receipts).values(), receipts[0].table, files[0]
    columns = file_columns(table, shape.column_list())
    if len(files) == 1 and not (
        types_problem(con, path, columns)
        or rows_problem(con, path, receipts)
        or rendering_problem(con, path, receipts, scratch)
    ):
        return path
    path = scratch / f"{table}.parquet"
    write_joined(con, path, files, shape, receipts)
    if problem := types_problem(con, path, columns):
        raise IntegrityError(f"{files[0].name}: {problem}")
    return path


def take_state(backing: Backing, manifest: Path, tables: Mapping[str, Path]) -> None:
    """Add the current state after a loaded segment, by its manifest; each table is a file.

    One that is not newer than what the warehouse has of its schema version changes nothing. Raises
    `IntegrityError` where it does not render to what its manifest says.
    """
    (segment,) = manifest_segments(manifest)
    with backing.working() as (con, scratch):
        path = scratch / "state.duckdb"
        receipts = manifest_receipts([manifest])
        with new_database(con, path, "state", sum(receipt.bytes for receipt in receipts)):
            receipts = [_state_table(con, r, tables[r.table], scratch) for r in receipts]
        if problem := rendering_problem(con, path, receipts, scratch):
            raise IntegrityError(problem)
        base = backing.log.begin()
        state = store_volume(backing, con, base, {ALL_TABLES: path}, [segment], receipts)
    chain_id = segment.name.chain_id
    backing.log.commit(lambda newest: newest.with_added(chain_id, [state]))


def _state_table(con: Connection, receipt: Receipt, path: Path, scratch: Path) -> Receipt:
    """Write a table of a state from a file of the lake; the receipt with its counts of texts.

    The file may be of an earlier segment, since which the rows are the same. Raises
    `IntegrityError` where it has other columns.
    """
    table, columns, first = receipt.table, receipt.schema.columns, receipt.blocks.first
    with readable_file(path, scratch):
        if problem := types_problem(con, path, file_columns(table, columns)):
            raise IntegrityError(f"{path.name}: {problem}")
        rows, name = rows_sql(table, columns, [path]), quote_name(table)
        con.execute(
            f"create table state.main.{name} as select * replace ({first}::bigint as _segment) "  # noqa: S608 - quoted
            f"from {rows} order by _row"
        )
    cells = raw_cells(con, f"state.main.{name} where true")
    return replace(receipt, raw_cells=cells[first])
