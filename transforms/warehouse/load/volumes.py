"""Writing the files of consecutive segments: those of their history, and of a current state.

Of history each table becomes a data file. A current state is one DuckDB file with a table per CSV
table. What servers look up by key becomes an index file beside either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
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
from transforms.segments.prepare import PreparedSegment
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.load.table_load import PartSink, TableLoad
from transforms.warehouse.manifests.data_files import ALL_TABLES, rows_sql, state_sql
from transforms.warehouse.manifests.manifest_rows import read_times
from transforms.warehouse.manifests.receipts import Receipt
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


def write_run(
    scratch: Path,
    segments: Sequence[PreparedSegment],
    sink: PartSink | None,
    memory_limit: str,
) -> tuple[RunFiles, list[Receipt]]:
    """Write the tables of consecutive segments as new files below `scratch`, proven.

    With a sink they are history, and it takes the CSV of the 15 history tables; without one they
    are the current state after a segment. Raises `SegmentError`.
    """
    receipts: list[Receipt] = []
    state = None if sink is not None else scratch / "state.duckdb"
    size = sum(segment.bytes for segment in segments)
    with (
        _data_errors(segments),
        working_connection(scratch, size=size, memory_limit=memory_limit) as con,
    ):
        with new_database(con, state, "state", size) if state else nullcontext():
            for table in sorted({table for segment in segments for table in segment.tables}):
                place = f"state.main.{quote_name(table)}" if state else _file(scratch, table)
                table_sink = sink if table in HISTORY_TABLES else None
                load = TableLoad(con, table, place, scratch, table_sink)
                receipts += load.load([s.tables[table] for s in segments if table in s.tables])
        shapes = shapes_of(receipts)
        data = {table: _file(scratch, table) for table in shapes}
        data = {table: path for table, path in data.items() if path.exists()}
        return finish_run(con, scratch, {ALL_TABLES: state} if state else data, shapes), receipts


def _file(scratch: Path, table: str) -> Path:
    return scratch / f"{table}.parquet"


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
        is_empty = not data.keys() & {ALL_TABLES, table}
        sources[table] = LookupSource(table, columns, rows, is_empty)
    return sources


def volume_sources(files: LocalFiles, volume: Volume) -> dict[str, LookupSource]:
    """The tables of a volume, whose files are held, as its index file is made of them."""
    data = {table: files.path(file) for table, file in volume.data.items()}
    return run_sources(data, volume.shapes)


@contextmanager
def _data_errors(segments: Sequence[PreparedSegment]) -> Iterator[None]:
    """Raise what DuckDB says about the data of segments as `SegmentError`."""
    try:
        yield
    except ABOUT_DATA as error:
        names = ", ".join(segment.file.name.file_name for segment in segments)
        raise SegmentError(
            f"{names} cannot be loaded: DuckDB says {reason(error)}: report it, with the segment"
        ) from error
