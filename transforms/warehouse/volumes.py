"""Volumes: immutable DuckDB files that hold the typed tables of a run of consecutive segments.

A volume has one table per CSV table (its columns, then `_segment`: the first block of the row's
segment, `_row`: the row's place in its CSV from 1, `_raw`: texts that no type holds) and the schema
`strata` with `segments`, `receipts` and `origin`, so that a volume alone says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from transforms.duck import STORAGE, attached, quote_name, working_connection
from transforms.duck_errors import ABOUT_DATA, reason
from transforms.errors import SegmentError
from transforms.lookups.lookup_tables import write_lookups
from transforms.memory import MEMORY_LIMIT
from transforms.segments.prepare import PreparedSegment
from transforms.segments.segment_zip import TableFile
from transforms.tables.conform import conversion
from transforms.tables.registry import HISTORY_TABLES, Column, fold_case
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.table_load import PartSink, TableLoader
from transforms.warehouse.volume_records import Origin, write_records

# Below this, DuckDB's default block of 256 KiB would make a volume of small tables mostly padding.
_SMALL_VOLUME_BYTES = 16 * 2**20
# CSV bytes that are typed, sorted and proven at once: twice as much spills and is slower.
_GROUP_BYTES = 128 * 10**6
# CSV bytes after which rows that wait in memory to be compressed go into the file.
_CHECKPOINT_BYTES = 2 * _GROUP_BYTES


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What a load may use: DuckDB threads, CSV bytes per volume.

    `require_id_chain` lets it refuse a segment that contradicts the chain of the network's ids.
    """

    threads: int = 1
    max_volume_bytes: int = 2 * 2**30
    require_id_chain: bool = False


Progress = Callable[[int], None]
"""Called with the bytes that were just done; less than 0 where they are to be done again."""


def build_volume(
    path: Path,
    origin: Origin,
    segments: Sequence[PreparedSegment],
    sink: PartSink | None,
    settings: LoadSettings,
    progress: Progress = lambda _bytes: None,
    *,
    memory_limit: str = MEMORY_LIMIT,
) -> list[Receipt]:
    """Write the tables of consecutive segments to a new DuckDB file, proven; returns the receipts.

    `sink` takes the CSV of the 15 history tables, `progress` CSV bytes that are proven. Raises
    `SegmentError`, naming the segment at fault where that is known; the unfinished file is then
    garbage. Temporary files lie beside `path`.
    """
    options = attach_options(sum(segment.bytes for segment in segments))
    receipts: list[Receipt] = []
    waiting = 0
    with (
        _data_errors(segments),
        working_connection(path.parent, threads=settings.threads, memory_limit=memory_limit) as con,
        attached(con, path, "volume", options),
    ):
        for table in sorted({table for segment in segments for table in segment.tables}):
            files = [seg.tables[table] for seg in segments if table in seg.tables]
            columns = (column for file in files for column in file.schema.columns)
            con.execute(create_table_sql("volume", table, columns))
            table_sink = sink if table in HISTORY_TABLES else None
            loader = TableLoader(con, "volume", path.parent, table_sink, table)
            for group in _alike(files):
                receipts.extend(loader.load(group))
                size = sum(file.bytes for file in group)
                progress(size)
                waiting += size
                if waiting > _CHECKPOINT_BYTES:
                    con.execute("checkpoint volume")
                    waiting = 0
        records = [loaded_segment(segment, receipts) for segment in segments]
        write_records(con, "volume", origin, records, receipts)
        write_lookups(con, "volume")
    return receipts


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


def attach_options(size: int) -> str:
    """The options of `attach` for a new volume of about `size` bytes."""
    blocks = ", block_size 16384" if size < _SMALL_VOLUME_BYTES else ""
    # Nobody goes on with the unfinished file of a process that died: there is nothing to recover.
    return f"({STORAGE}, recovery_mode no_wal_writes{blocks})"


def _alike(files: Iterable[TableFile]) -> Iterator[list[TableFile]]:
    """Consecutive files of one schema, as many as DuckDB sorts without spilling."""
    for _, same in groupby(files, key=lambda file: file.schema):
        group: list[TableFile] = []
        size = 0
        for file in same:
            if group and size + file.bytes > _GROUP_BYTES:
                yield group
                group, size = [], 0
            group.append(file)
            size += file.bytes
        yield group


def create_table_sql(volume: str, table: str, columns: Iterable[Column]) -> str:
    """SQL that creates a volume's table: the CSV's columns by their first types, then our own."""
    # DuckDB folds case: a name that later segments write otherwise is one column.
    columns_by_name = {fold_case(column.name): column for column in reversed([*columns])}
    listed = [
        f"{quote_name(column.name)} {conversion(table, column).type}"
        for column in reversed(columns_by_name.values())
    ]
    own = ["_segment bigint", "_row bigint", "_raw map(varchar, varchar)"]
    target = f"{quote_name(volume)}.main.{quote_name(table)}"
    return f"create table {target} ({', '.join([*listed, *own])})"


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
