"""The manifest of a volume: a small Parquet file that says what was loaded.

A row per segment, with the receipts of its tables as a list, and which files have the rows. It is
written once; with these files it is all that is needed to make a lost log again. Those of runs of
segments lie in `manifests/`, those of current states beside their files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.block_range import BlockRange
from transforms.duck import file_connection, quote_files
from transforms.errors import IntegrityError, SegmentError
from transforms.files import naming_full_disk
from transforms.objects import StoredFile
from transforms.warehouse.manifests.manifest_rows import (
    MANIFEST,
    NAME,
    RECEIPT_ROWS,
    RECEIPTS,
    SEGMENTS,
    manifest_rows,
    parse_receipts,
    parse_segments,
    rows_over,
)
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume, parse_volume, volume_row

_ABOUT = b"strata.manifest"
# Processes read the segments of hundreds of manifests when they start: of so few rows, dictionaries
# and compressed columns take most of that time. Only the receipts are long.
_COMPRESSION = dict.fromkeys(SEGMENTS.names, "none") | {
    f"receipts.list.element.{name}": "zstd" for name in RECEIPTS.names
}
# What rows raise that nobody wrote.
_ODD = (pa.ArrowException, SegmentError, OSError, ValueError, LookupError, TypeError)


def write_manifest(
    path: Path,
    base: int,
    volume: Volume,
    segments: Sequence[LoadedSegment],
    receipts: Iterable[Receipt],
) -> None:
    """Write the manifest of a volume of these segments (ascending) with their receipts.

    `base` is the number of the snapshot upon which it was built.
    """
    facts = {"snapshot": base, "volume": volume_row(replace(volume, shapes={}), {})}
    schema = MANIFEST.with_metadata({_ABOUT: json.dumps(facts)})
    table = pa.Table.from_pylist([*manifest_rows(segments, receipts)], schema=schema)
    with naming_full_disk(path):
        pq.write_table(
            table, path, compression=_COMPRESSION, use_dictionary=False, write_page_checksum=True
        )


def read_about(path: Path, file: StoredFile) -> tuple[int, Volume]:
    """Upon which snapshot the volume of a manifest, stored as `file`, was built, and the volume.

    Its rows are not read, from whose receipts its shapes follow. Raises `IntegrityError` where it
    is damaged.
    """
    with _believed(path):
        facts = json.loads(pq.read_schema(path).metadata[_ABOUT])
        return facts["snapshot"], replace(parse_volume(facts["volume"], []), file=file)


@lru_cache(maxsize=4096)
def read_segments(path: Path) -> pa.Table:
    """The rows of `strata.segments` in a manifest, ascending, in memory from then on.

    The file is named by its bytes and never changes: they are proven by the checksums of its pages.
    Raises `IntegrityError` where it is damaged.
    """
    with _believed(path):
        # To read such a small file at once takes half of the time of many reads.
        file = pq.ParquetFile(pa.BufferReader(path.read_bytes()), page_checksum_verification=True)
        rows = file.read(SEGMENTS.names, use_threads=False)
        if not rows.num_rows or rows.column_names != SEGMENTS.names:
            raise ValueError("it has no segments, or other columns")
        return rows


def manifest_segments(path: Path, blocks: BlockRange | None = None) -> list[LoadedSegment]:
    """The segments of a manifest, ascending; with `blocks`, those that hold any of these."""
    rows = read_segments(path)
    with _believed(path):
        return parse_segments(rows_over(rows, blocks) if blocks else rows)


def read_receipts(
    manifests: Sequence[Path], blocks: BlockRange | None = None, table: str | None = None
) -> pa.Table:
    """The rows of `strata.receipts` in manifests, ascending by block and table.

    Perhaps only those of one table, or of segments that begin in `blocks`.
    """
    if not manifests:
        return RECEIPT_ROWS.empty_table()
    # It takes as long to import as a command does that asks for no receipts.
    from transforms.duck_errors import Error

    source = receipts_source(quote_files(manifests))
    begin = f"first_block between {blocks.first} and {blocks.last}" if blocks else "true"
    query = (
        f"from {source} where {begin} and coalesce(table_name = $table, $table is null) "
        "order by first_block, table_name"
    )
    with _believed("a manifest", Error), file_connection(len(manifests)) as con:
        return con.sql(query, params={"table": table}).to_arrow_table()


def manifest_receipts(
    manifests: Sequence[Path], blocks: BlockRange | None = None, table: str | None = None
) -> list[Receipt]:
    """The receipts in manifests; see `read_receipts`."""
    rows = read_receipts(manifests, blocks, table)
    with _believed("a manifest"):
        return parse_receipts(rows)


@contextmanager
def _believed(what: Path | str, *odd: type[Exception]) -> Iterator[None]:
    """Say of a manifest that it is damaged: page checksums do not cover all of a file."""
    try:
        yield
    except (*_ODD, *odd) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # Which one of several, DuckDB says.
        reason = "" if isinstance(what, Path) else f" ({str(error).partition(chr(10))[0]})"
        remedy = "run strata repair and load its segments again"
        raise IntegrityError(f"{what} is damaged{reason}: {remedy}") from error


def segments_source(manifests: str) -> str:
    """SQL for the rows of `strata.segments`; `manifests` is SQL for their list."""
    return f"(select {', '.join(SEGMENTS.names)} from read_parquet({manifests}))"  # noqa: S608


def receipts_source(manifests: str) -> str:
    """SQL for the rows of `strata.receipts` in manifests; see `segments_source`."""
    key = ", ".join(NAME)
    own = ", ".join(f"receipt.{name} as {name}" for name in RECEIPTS.names)
    return (
        f"(select {key}, {own} from (select {key}, unnest(receipts) as receipt "  # noqa: S608 - ours
        f"from read_parquet({manifests})))"
    )
