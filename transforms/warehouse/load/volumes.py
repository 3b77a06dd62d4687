"""Writing the files of consecutive segments: those of their history, and of a current state.

Of history each table becomes a data file. A current state is one DuckDB file with a table per CSV
table. What servers look up by key becomes an index file beside either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Shape, Volume

_log = logging.getLogger(__name__)


@contextmanager
def loading_connection(
    scratch: Path, segments: Sequence[PreparedSegment], memory_limit: str
) -> Iterator[Connection]:
    """Open a DuckDB to load segments. What it says about their data is raised as `SegmentError`."""
    size = sum(segment.bytes for segment in segments)
    try:
        with working_connection(scratch, size=size, memory_limit=memory_limit) as con:
            yield con
    except ABOUT_DATA as error:
        names = ", ".join(segment.file.name.file_name for segment in segments)
        raise SegmentError(
            f"{names} cannot be loaded: DuckDB says {reason(error)}: report it, with the segment"
        ) from error


def write_tables(
    con: Connection, scratch: Path, segments: Sequence[PreparedSegment], sink: PartSink | None
) -> tuple[dict[str, Path], list[Receipt]]:
    """Write the tables of consecutive segments as new files below `scratch`, proven.

    With a sink they are history, and it takes the CSV of the 15 history tables; without one they
    are the current state after a segment. Returns the files, see `Volume.data`. Raises
    `SegmentError`.
    """
    receipts: list[Receipt] = []
    data = {} if sink is not None else {ALL_TABLES: scratch / "state.duckdb"}
    with ExitStack() as stack:
        if sink is None:
            size = sum(segment.bytes for segment in segments)
            stack.enter_context(new_database(con, data[ALL_TABLES], "state", size))
        for table in sorted({table for segment in segments for table in segment.tables}):
            path = scratch / f"{table}.parquet"
            place = path if sink is not None else f"state.main.{quote_name(table)}"
            load = TableLoad(con, table, place, scratch, sink if table in HISTORY_TABLES else None)
            receipts += load.load([s.tables[table] for s in segments if table in s.tables])
            if path.exists():
                data[table] = path
    return data, receipts


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
