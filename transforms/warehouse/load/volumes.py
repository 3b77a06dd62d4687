"""Writing the files of consecutive segments: those of their history, and of a current state.

Of history each table becomes a data file. A current state is one DuckDB file with a table per CSV
table. What servers look up by key becomes an index file beside either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from transforms.duck import (
    Connection,
    less_memory,
    new_database,
    quote_name,
    working_connection,
)
from transforms.duck_errors import ABOUT_DATA, OUT_OF_MEMORY, reason
from transforms.errors import SegmentError
from transforms.lookups.index_file import SUFFIX, new_index
from transforms.lookups.lookup_tables import LookupSource, write_lookups
from transforms.memory import RENDERING_LIMIT
from transforms.segments.prepare import PreparedSegment
from transforms.segments.segment_zip import TableFile
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.load.load_settings import LoadSettings
from transforms.warehouse.load.table_load import FileTarget, PartSink, TableLoader, TableTarget
from transforms.warehouse.manifests.data_files import ALL_TABLES, rows_sql, state_sql
from transforms.warehouse.manifests.manifest_rows import read_times
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Shape, Times, Volume, shapes_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The finished files of a volume: see `Volume.data`, and the index file if it has one.

    `times` are the first and the last time of its blocks, in microseconds since 1970, UTC.
    """

    data: Mapping[str, Path]
    index: Path | None
    times: Times | None


def write_history(
    scratch: Path,
    segments: Sequence[PreparedSegment],
    sink: PartSink,
    settings: LoadSettings,
    *,
    memory_limit: str = RENDERING_LIMIT,
) -> tuple[RunFiles, list[Receipt]]:
    """Write the history of consecutive segments as new files below `scratch`, proven.

    `sink` takes the CSV of the 15 history tables. Raises `SegmentError`, which names the segment at
    fault where that is known.
    """
    receipts: list[Receipt] = []
    data: dict[str, Path] = {}
    with _loading(scratch, segments, settings, memory_limit) as con:
        for table, files in _tables(segments):
            target = FileTarget(table, scratch / f"{table}.parquet")
            table_sink = sink if table in HISTORY_TABLES else None
            loader = TableLoader(con, target, scratch, table_sink, table)
            receipts += loader.load(files)
            if target.path.exists():
                data[table] = target.path
        return finish_run(con, scratch, data, shapes_of(receipts)), receipts


def finish_run(
    con: Connection, scratch: Path, data: Mapping[str, Path], shapes: Mapping[str, Shape]
) -> RunFiles:
    """Describe the files of a volume, and write its index file."""
    times = None
    if "blocks" in data and "vega_time" in shapes["blocks"].columns:
        blocks = shapes["blocks"].column_list()
        times = read_times(con, rows_sql("blocks", blocks, [data["blocks"]]))
    return RunFiles(data, write_index(con, scratch, run_sources(data, shapes)), times)


def write_index(con: Connection, scratch: Path, sources: Mapping[str, LookupSource]) -> Path | None:
    """Write the index file of a volume's tables; None where these allow none.

    None also where a row takes more memory than there is: servers refuse what it would answer.
    """
    path = scratch / f"index{SUFFIX}"
    path.unlink(missing_ok=True)
    try:
        with less_memory(con), new_index(path) as file:
            is_written = write_lookups(con, file, sources)
    except OUT_OF_MEMORY as error:
        what = "an index file was not made: let STRATA_MEMORY_MB be more and run strata repair: %s"
        _log.warning(what, reason(error))
        is_written = False
    if not is_written:
        path.unlink()
    return path if is_written else None


def run_sources(data: Mapping[str, Path], shapes: Mapping[str, Shape]) -> dict[str, LookupSource]:
    """The tables of a volume, as its index file is made of them."""
    sources = {}
    for table, shape in shapes.items():
        columns = shape.column_list()
        if ALL_TABLES in data:
            rows = state_sql(table, [data[ALL_TABLES]])
        else:
            rows = rows_sql(table, columns, [data[table]] if table in data else [], shape.raw)
        sources[table] = LookupSource(table, columns, rows)
    return sources


def volume_sources(files: LocalFiles, volume: Volume) -> dict[str, LookupSource]:
    """The tables of a volume, whose files are held, as its index file is made of them."""
    data = {table: files.path(file) for table, file in volume.data.items()}
    return run_sources(data, volume.shapes)


def write_state(
    scratch: Path, segment: PreparedSegment, settings: LoadSettings, *, memory_limit: str
) -> tuple[RunFiles, list[Receipt]]:
    """Write the current state after a segment as new files below `scratch`, proven.

    Raises `SegmentError`.
    """
    receipts: list[Receipt] = []
    path = scratch / "state.duckdb"
    with _loading(scratch, [segment], settings, memory_limit) as con:
        with new_database(con, path, "state", segment.bytes):
            for table, files in _tables([segment]):
                target = TableTarget(f"state.main.{quote_name(table)}")
                receipts += TableLoader(con, target, scratch, None, table).load(files)
        return finish_run(con, scratch, {ALL_TABLES: path}, shapes_of(receipts)), receipts


@contextmanager
def _loading(
    scratch: Path, segments: Sequence[PreparedSegment], settings: LoadSettings, memory_limit: str
) -> Iterator[Connection]:
    """Open a DuckDB to load segments, whose data are named where they are at fault."""
    size, threads = sum(segment.bytes for segment in segments), settings.threads
    with (
        _data_errors(segments),
        working_connection(scratch, size=size, threads=threads, memory_limit=memory_limit) as con,
    ):
        yield con


def _tables(segments: Sequence[PreparedSegment]) -> Iterator[tuple[str, list[TableFile]]]:
    """The tables of segments with their files, ascending."""
    for table in sorted({table for segment in segments for table in segment.tables}):
        yield table, [seg.tables[table] for seg in segments if table in seg.tables]


@contextmanager
def _data_errors(segments: Sequence[PreparedSegment]) -> Iterator[None]:
    """Raise what DuckDB says about the data of segments as `SegmentError`, named where one is."""
    try:
        yield
    except ABOUT_DATA as error:
        names = ", ".join(segment.file.name.file_name for segment in segments)
        raise SegmentError(
            f"{names} cannot be loaded: DuckDB says {reason(error)}: report it, with the segment",
            names if len(segments) == 1 else "",
        ) from error


def loaded_segment(segment: PreparedSegment, receipts: Iterable[Receipt]) -> LoadedSegment:
    """The record of one segment from what was prepared and loaded."""
    mine = [receipt for receipt in receipts if receipt.segment == segment.file.name]
    return LoadedSegment(
        segment.file.name,
        segment.file.info,
        segment.sha256,
        segment.segment_id,
        segment.previous_id,
        sum(receipt.rows for receipt in mine),
        sum(receipt.bytes for receipt in mine),
        segment.file.index_id,
    )
