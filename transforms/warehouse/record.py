"""The record of a volume: a small Parquet file beside it that says what was loaded into it.

A row per segment, with the receipts of its tables as a list. Readers ask it instead of the volume,
which may be large, and far away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.block_range import BlockRange, contiguous_runs
from transforms.duck import file_connection, quote_files
from transforms.errors import IntegrityError
from transforms.objects import StoredFile
from transforms.segments.id_chain import IdRun, other_id
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.volume_records import (
    RECEIPTS,
    SEGMENTS,
    Origin,
    parse_segments,
    read_receipts,
    receipt_rows,
    segment_rows,
)

_KEY = ("chain_id", "schema_version", "first_block", "last_block")
_OWN = [field for field in RECEIPTS if field.name not in _KEY]
_SCHEMA = SEGMENTS.append(pa.field("receipts", pa.list_(pa.struct(_OWN))))
_FILES = ("first_block", "last_block", "source_key", "source_size")
_IDS = ("segment_id", "previous_id", "index_id")
_ABOUT = b"strata.volume"
_DAMAGED = "is damaged: run strata repair, which makes it again from its volume"


@dataclass(frozen=True, slots=True)
class About:
    """Which volume a record is about, and where that one comes from."""

    volume: StoredFile
    origin: Origin


def write_record(
    path: Path, about: About, segments: Sequence[LoadedSegment], receipts: Iterable[Receipt]
) -> None:
    """Write the record of a volume with these segments (ascending) and their receipts."""
    ordered = sorted(receipts, key=lambda receipt: (receipt.blocks, receipt.table))
    lists = {
        blocks: [{name: row[name] for name in (f.name for f in _OWN)} for row in receipt_rows(same)]
        for blocks, same in groupby(ordered, key=lambda receipt: receipt.blocks)
    }
    rows = [
        row | {"receipts": lists.get(segment.blocks, [])}
        for segment, row in zip(segments, segment_rows(segments), strict=True)
    ]
    # DuckDB's files differ by themselves, and with them their records: a sweep never takes a fresh
    # one for an abandoned one of that name.
    metadata = {
        _ABOUT: json.dumps({"file": astuple(about.volume), "origin": astuple(about.origin)})
    }
    schema = _SCHEMA.with_metadata(metadata)
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def read_about(path: Path) -> About:
    """Which volume a record is about; its rows are not read. Raises `IntegrityError`."""
    try:
        row = json.loads(pq.read_schema(path).metadata[_ABOUT])
        return About(StoredFile(*row["file"]), Origin(*row["origin"]))
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise IntegrityError(f"{path} is no record of a volume, or damaged") from error


@dataclass(frozen=True)
class RecordedFiles:
    """What a record says of its segments, ascending: first and last blocks, files."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    keys: tuple[str, ...]
    sizes: tuple[int, ...]

    @cached_property
    def blocks(self) -> tuple[BlockRange, ...]:
        """The blocks of each segment, made when they are first asked for."""
        return tuple(map(BlockRange, self.first, self.last))


@lru_cache(maxsize=4096)
def read_files(path: Path) -> RecordedFiles:
    """The segments of a record and their files: a third of the work of `read_record`.

    Raises `IntegrityError` where it is damaged.
    """
    table = _read(path, _FILES)
    return RecordedFiles(*(tuple(table.column(name).to_pylist()) for name in _FILES))


@dataclass(frozen=True, slots=True)
class RecordedIds:
    """What a record says of the network's ids of its segments.

    `runs` are its segments for the chain of ids, as few as can be said without judging; `named`
    those of which a source's index said another id: (file's key, id, the index's word).
    """

    runs: tuple[IdRun, ...]
    named: tuple[tuple[str, str, str], ...]


@lru_cache(maxsize=4096)
def read_ids(path: Path) -> RecordedIds:
    """The ids of a record's segments. Raises `IntegrityError` where it is damaged."""
    table = _read(path, _IDS)
    ids, before, claims = (table.column(name).to_pylist() for name in _IDS)
    files = read_files(path)
    blocks = files.blocks
    if before[1:] == ids[:-1] and len([*contiguous_runs(blocks)]) == 1:
        runs = [IdRun(blocks[0], blocks[-1], ids[-1], before[0])]
    else:
        runs = list(map(IdRun, blocks, blocks, ids, before))
    rows = zip(files.keys, ids, claims, strict=True)
    return RecordedIds(tuple(runs), tuple(row for row in rows if other_id(row[1], row[2])))


@lru_cache(maxsize=4096)
def read_record(path: Path) -> tuple[LoadedSegment, ...]:
    """The segments of a record, as `parse_record` gives them, in memory from then on.

    The file is named by its bytes and never changes.
    """
    return parse_record(path)


def parse_record(path: Path) -> tuple[LoadedSegment, ...]:
    """The segments of a record, ascending. Raises `IntegrityError` where it is damaged."""
    return tuple(parse_segments(_read(path, SEGMENTS.names)))


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    """Columns of a record, proven by the checksums of its pages."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return file.read([*columns], use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise IntegrityError(f"{path} {_DAMAGED}") from error


def segments_source(records: str) -> str:
    """SQL for the rows of `strata.segments`; `records` is SQL for the list of records' files."""
    return f"(select {', '.join(SEGMENTS.names)} from read_parquet({records}))"  # noqa: S608


def receipts_source(records: str) -> str:
    """SQL for the rows of `strata.receipts` in records; see `segments_source`."""
    key = ", ".join(_KEY)
    own = ", ".join(f"receipt.{field.name} as {field.name}" for field in _OWN)
    return (
        f"(select {key}, {own} from (select {key}, unnest(receipts) as receipt "  # noqa: S608 - ours
        f"from read_parquet({records})))"
    )


def recorded_receipts(
    records: Sequence[Path], where: str = "true", values: dict[str, str] | None = None
) -> Iterator[Receipt]:
    """The receipts in records, ascending by block and table, of rows for which `where` holds."""
    if records:
        source = receipts_source(quote_files(records))
        query = f"from {source} where {where} order by first_block, table_name"
        try:
            with file_connection() as con:
                receipts = read_receipts(con, query, values or {})
        except duckdb.InvalidInputException as error:
            raise IntegrityError(f"a record {_DAMAGED}: {str(error).splitlines()[0]}") from error
        yield from receipts
