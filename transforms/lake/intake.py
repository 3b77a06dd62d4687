"""Taking published files into a warehouse: proven by receipts, added to the log as a load adds.

A file of the lake that has just the rows of a run of segments becomes the warehouse's data file as
it is; of a part of one, or of several, a data file is written. Either way every CSV is rendered
from it and held against its receipt before anything is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from transforms.duck import Connection, new_database, quote_name
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import lake_reader, readable_file
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import OWN_COLUMNS, file_columns
from transforms.tables.registry import HISTORY_TABLES, TableSchema
from transforms.warehouse.checks.file_check import (
    file_types,
    rows_problem,
    state_problem,
    types_problem,
)
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.raw_cells import RowCounts, row_counts
from transforms.warehouse.load.rendering import rendering_problem
from transforms.warehouse.load.segment_checks import check_keys_and_heights
from transforms.warehouse.load.volume_storage import store_volume
from transforms.warehouse.load.volumes import finish_run
from transforms.warehouse.log.addition import with_added
from transforms.warehouse.manifests.data_files import ALL_TABLES, joined_sql, rows_sql, write_sql
from transforms.warehouse.manifests.manifest import manifest_receipts, read_columns
from transforms.warehouse.manifests.manifest_rows import SEGMENTS, parse_segments
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume, shapes_of


def take_run(
    backing: Backing,
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
    files: Mapping[str, Sequence[Path]],
) -> None:
    """Add a run of segments, of which the warehouse has none, with its receipts.

    `files` are those of each table with rows, ascending; one that becomes a data file is moved.
    Raises `IntegrityError` where they do not render to what the receipts say, `SegmentError` where
    their rows are not fit to be published.
    """
    data: dict[str, Path] = {}
    proven: list[Receipt] = []
    by_table = sorted(receipts, key=lambda receipt: (receipt.table, receipt.blocks))
    with (
        scratch_folder(backing.scratch) as scratch,
        lake_reader(scratch, backing.memory_mb) as con,
    ):
        for table, group in groupby(by_table, key=attrgetter("table")):
            intake = _TableIntake(con, scratch, [*group])
            path, mine = intake.taken(files.get(table, ()))
            proven += mine
            if path is not None:
                data[table] = path
        run = finish_run(con, scratch, data, shapes_of(proven))
        volume = store_volume(backing, run, backing.log.begin(), segments, proven)
    _commit(backing, segments[0].name.chain_id, volume, ())


def take_state(backing: Backing, manifest: Path, tables: Mapping[str, Path]) -> None:
    """Add the current state after a loaded segment, by its manifest; each table is a file.

    One that is not newer than what the warehouse has of its schema version changes nothing. Raises
    `IntegrityError` where it does not render to what its manifest says, or is not of a segment that
    is loaded.
    """
    (segment,) = parse_segments(read_columns(manifest, SEGMENTS.names))
    newest = backing.log.begin()
    loaded = backing.catalog(newest).segment_at(segment.blocks.first)
    if loaded is None or (loaded.blocks, loaded.sha256) != (segment.blocks, segment.sha256):
        raise IntegrityError(
            f"{manifest.name} is of the current state after segment {segment.blocks}, whose ZIP "
            f"has SHA-256 {segment.sha256}, and that segment is not loaded: it is left out"
        )
    with (
        scratch_folder(backing.scratch) as scratch,
        lake_reader(scratch, backing.memory_mb) as con,
    ):
        path = scratch / "state.duckdb"
        receipts = [r for r in manifest_receipts([manifest]) if r.table in tables]
        with new_database(con, path, "state", sum(receipt.bytes for receipt in receipts)):
            receipts = [_state_table(con, r, tables[r.table], scratch) for r in receipts]
        if problem := state_problem(con, path, receipts, scratch):
            raise IntegrityError(f"the current state after segment {segment.blocks}: {problem}")
        run = finish_run(con, scratch, {ALL_TABLES: path}, shapes_of(receipts))
        state = store_volume(backing, run, newest, [segment], receipts)
    _commit(backing, segment.name.chain_id, None, (state,))


def _state_table(con: Connection, receipt: Receipt, path: Path, scratch: Path) -> Receipt:
    """Write a table of a state from a file of the lake; the receipt with its counts of texts.

    The file may be of an earlier segment, since which the rows are the same. Raises
    `IntegrityError` where it has other columns, or rows that are not numbered.
    """
    table, columns, first = receipt.table, receipt.schema.columns, receipt.blocks.first
    with readable_file(path, scratch):
        if problem := types_problem(con, path, file_columns(table, columns)):
            raise IntegrityError(f"{path.name}: {problem}")
        rows, name = rows_sql(table, columns, [path], {c.name for c in columns}), quote_name(table)
        con.execute(
            f"create table state.main.{name} as select * replace ({first}::bigint as _segment) "  # noqa: S608 - quoted
            f"from {rows} order by _row"
        )
    counts = row_counts(con, receipt.schema, f"state.main.{name} where true", "distinct _row")
    return _counted(receipt, counts[first])


def _counted(receipt: Receipt, counts: RowCounts) -> Receipt:
    """A receipt with counts of texts. Raises `IntegrityError` where rows are not numbered."""
    if not counts.are_numbered(receipt.rows):
        raise IntegrityError(
            f"the rows of table {receipt.table} of segment {receipt.blocks} are not numbered from "
            f"1 to {receipt.rows}"
        )
    return replace(receipt, raw_cells=counts.raw_cells)


def _commit(
    backing: Backing, chain_id: str, volume: Volume | None, states: Sequence[Volume]
) -> None:
    backing.log.commit(partial(with_added, chain_id=chain_id, volume=volume, states=states))


@dataclass(frozen=True, slots=True)
class _TableIntake:
    """One table of a run, by its receipts, which ascend."""

    con: Connection
    scratch: Path
    receipts: Sequence[Receipt]

    @property
    def table(self) -> str:
        """Its name."""
        return self.receipts[0].table

    def taken(self, files: Sequence[Path]) -> tuple[Path | None, list[Receipt]]:
        """The data file of the run, None without rows, and the receipts with counts of texts."""
        if not files:
            return None, self._proven([])
        with readable_file(files[0], self.scratch):
            is_whole = len(files) == 1 and self._is_whole(files[0])
            path = files[0] if is_whole else self._written(files)
            return path, self._proven([path])

    def _is_whole(self, path: Path) -> bool:
        """Whether a published file has the rows and the columns of the run, and no others.

        Raises `IntegrityError` where a column is of another type.
        """
        shape = shapes_of(self.receipts)[self.table]
        columns = file_columns(self.table, shape.column_list())
        names = {column.name for column in (*columns, *OWN_COLUMNS)}
        if file_types(self.con, path).keys() != names:
            return False
        if problem := types_problem(self.con, path, columns):
            raise IntegrityError(f"{path.name}: {problem}")
        return not rows_problem(self.con, path, self.receipts)

    def _written(self, files: Sequence[Path]) -> Path:
        """A new file of the run's rows in published files."""
        path = self.scratch / f"{self.table}.parquet"
        columns = shapes_of(self.receipts)[self.table].column_list()
        row_bytes = sum(r.bytes for r in self.receipts) // max(
            sum(r.rows for r in self.receipts), 1
        )
        rows = joined_sql(self.con, self.table, columns, files)
        query = f"{rows} where {_between(self.receipts)}"
        self.con.execute(write_sql(query, path, row_bytes))
        return path

    def _proven(self, files: Sequence[Path]) -> list[Receipt]:
        """The receipts, each held against the CSV that the rows give back."""

        def source(schema: TableSchema) -> str:
            return rows_sql(self.table, schema.columns, files)

        if problem := rendering_problem(self.con, source, self.receipts, self.scratch):
            raise IntegrityError(f"table {self.table} of {problem}")
        proven: list[Receipt] = []
        for schema, group in groupby(self.receipts, key=attrgetter("schema")):
            alike, rows = [*group], source(schema)
            within = f"{rows} where {_between(alike)}"
            counts = row_counts(self.con, schema, within, "distinct _row")
            alike = [_counted(receipt, counts[receipt.blocks.first]) for receipt in alike]
            if self.table in HISTORY_TABLES:
                check_keys_and_heights(self.con, rows, alike)
            proven += alike
        return proven


def _between(receipts: Sequence[Receipt]) -> str:
    """SQL that is true for rows of the segments of receipts, which ascend."""
    return f"_segment between {receipts[0].blocks.first} and {receipts[-1].blocks.first}"
