"""The manifest of a volume: a small Parquet file that says what was loaded.

A row per segment, with the receipts of its tables as a list, and which files have the rows. It is
written once; with these files it is all that is needed to make a lost log again. Those of runs of
segments lie in `manifests/`, those of current states beside their files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.block_range import BlockRange
from transforms.duck import file_connection, quote_files
from transforms.errors import IntegrityError, SegmentError
from transforms.objects import StoredFile
from transforms.warehouse.manifests.data_files import ALL_TABLES
from transforms.warehouse.manifests.manifest_rows import (
    RECEIPTS,
    SEGMENTS,
    parse_segments,
    read_receipts,
    receipt_rows,
    segment_rows,
)
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Times, Volume, shapes_of

_KEY = ("chain_id", "schema_version", "first_block", "last_block")
_SCHEMA = SEGMENTS.append(pa.field("receipts", pa.list_(pa.struct([*RECEIPTS]))))
_ABOUT = b"strata.manifest"
# What rows raise that nobody wrote: page checksums do not cover all of a file.
_ODD = (SegmentError, ValueError, LookupError, TypeError)
_DAMAGED = "is damaged: run strata repair and load its segments again"


@dataclass(frozen=True, slots=True)
class About:
    """What a manifest says of its volume as a whole: where it comes from, and its files.

    It was made for a `warehouse`, upon a `snapshot` of it; the others are those of a `Volume`.
    """

    warehouse: str
    snapshot: int
    data: Mapping[str, StoredFile] = field(default_factory=dict)
    index: StoredFile | None = None
    times: Times | None = None


def volume_of(
    manifest: StoredFile,
    about: About,
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
) -> Volume:
    """Describe a volume by what its manifest says."""
    return Volume(
        "state" if ALL_TABLES in about.data else "history",
        manifest,
        BlockRange(segments[0].blocks.first, segments[-1].blocks.last),
        max(segment.name.version for segment in segments),
        shapes_of(receipts),
        about.data,
        about.index,
        about.times,
    )


def write_manifest(
    path: Path, about: About, segments: Sequence[LoadedSegment], receipts: Iterable[Receipt]
) -> None:
    """Write the manifest of a volume of these segments (ascending) with their receipts."""
    ordered = sorted(receipts, key=lambda receipt: (receipt.blocks, receipt.table))
    by_segment = groupby(ordered, key=lambda receipt: receipt.blocks)
    lists = {blocks: receipt_rows(same) for blocks, same in by_segment}
    rows = [
        row | {"receipts": lists.get(segment.blocks, [])}
        for segment, row in zip(segments, segment_rows(segments), strict=True)
    ]
    facts = {
        "warehouse": about.warehouse,
        "snapshot": about.snapshot,
        "data": {table: astuple(file) for table, file in sorted(about.data.items())},
        "index": about.index and astuple(about.index),
        "times": about.times,
    }
    schema = _SCHEMA.with_metadata({_ABOUT: json.dumps(facts)})
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def read_about(path: Path) -> About:
    """What a manifest says of its volume; its rows are not read. Raises `IntegrityError`."""
    try:
        facts = json.loads(pq.read_schema(path).metadata[_ABOUT])
        return About(
            facts["warehouse"],
            facts["snapshot"],
            {table: StoredFile(*row) for table, row in facts["data"].items()},
            StoredFile(*facts["index"]) if facts["index"] else None,
            (facts["times"][0], facts["times"][1]) if facts["times"] else None,
        )
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise IntegrityError(f"{path} is no manifest, or damaged") from error


@lru_cache(maxsize=4096)
def read_manifest(path: Path) -> tuple[LoadedSegment, ...]:
    """The segments of a manifest, ascending, in memory from then on.

    The file is named by its bytes and never changes. Raises `IntegrityError` where it is damaged.
    """
    rows = read_columns(path, SEGMENTS.names)
    try:
        return tuple(parse_segments(rows))
    except _ODD as error:
        raise IntegrityError(f"{path} {_DAMAGED}") from error


def read_columns(path: Path, columns: Sequence[str]) -> pa.Table:
    """Columns of a manifest, proven by the checksums of its pages.

    Raises `IntegrityError` where it is damaged.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return file.read([*columns], use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise IntegrityError(f"{path} {_DAMAGED}") from error


def segments_source(manifests: str) -> str:
    """SQL for the rows of `strata.segments`; `manifests` is SQL for their list."""
    return f"(select {', '.join(SEGMENTS.names)} from read_parquet({manifests}))"  # noqa: S608


def receipts_source(manifests: str) -> str:
    """SQL for the rows of `strata.receipts` in manifests; see `segments_source`."""
    key = ", ".join(_KEY)
    own = ", ".join(f"receipt.{name} as {name}" for name in RECEIPTS.names)
    return (
        f"(select {key}, {own} from (select {key}, unnest(receipts) as receipt "  # noqa: S608 - ours
        f"from read_parquet({manifests})))"
    )


def manifest_receipts(
    manifests: Sequence[Path], blocks: BlockRange | None = None, table: str | None = None
) -> Iterator[Receipt]:
    """The receipts in manifests, ascending by block and table, perhaps of one table.

    With `blocks`, they are those of segments that begin in these.
    """
    if manifests:
        # It takes as long to import as a command does that asks for no receipts.
        import duckdb

        source = receipts_source(quote_files(manifests))
        begin = f"first_block between {blocks.first} and {blocks.last}" if blocks else "true"
        query = (
            f"from {source} where {begin} and coalesce(table_name = $table, $table is null) "
            "order by first_block, table_name"
        )
        try:
            with file_connection(len(manifests)) as con:
                receipts = read_receipts(con, query, {"table": table})
        except (duckdb.Error, *_ODD) as error:
            reason = str(error).partition("\n")[0]
            raise IntegrityError(f"a manifest {_DAMAGED}: {reason}") from error
        yield from receipts
