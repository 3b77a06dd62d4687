"""The rows of `strata.segments` and `strata.receipts` as Arrow has them, and objects of some.

A history has 75,000 segments, with a receipt for each table: as objects they take 100 MB.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import Any

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.objects import ObjectInfo
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import Column, TableSchema
from transforms.verifying.findings import ForeignRows
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt

SEGMENTS = pa.schema(
    [
        ("chain_id", pa.string()),
        ("schema_version", pa.int32()),
        ("first_block", pa.int64()),
        ("last_block", pa.int64()),
        ("source_key", pa.string()),
        ("source_size", pa.int64()),
        ("source_version", pa.string()),
        ("zip_sha256", pa.string()),
        ("segment_id", pa.string()),
        ("previous_id", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("index_id", pa.string()),
        ("foreign_rows", pa.string()),
    ]
)
NAME = SEGMENTS.names[:4]
"""The columns that name a segment; its receipts have them, too."""

RECEIPTS = pa.schema(
    [
        ("table_name", pa.string()),
        ("columns", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
        ("raw_cells", pa.string()),
    ]
)
MANIFEST = SEGMENTS.append(pa.field("receipts", pa.list_(pa.struct([*RECEIPTS]))))
RECEIPT_ROWS = pa.schema([*(SEGMENTS.field(name) for name in NAME), *RECEIPTS])
_value = methodcaller("as_py")


def rows_over(rows: pa.Table, blocks: BlockRange) -> pa.Table:
    """The rows, which ascend, of segments that hold any of these blocks."""
    start = bisect_left(rows["last_block"], blocks.first, key=_value)
    stop = bisect_right(rows["first_block"], blocks.last, key=_value)
    return rows.slice(start, stop - start)


def row_blocks(rows: pa.Table) -> list[BlockRange]:
    """The blocks of the segment of each row."""
    return [*map(BlockRange, rows["first_block"].to_pylist(), rows["last_block"].to_pylist())]


def parse_segments(rows: pa.Table) -> list[LoadedSegment]:
    """The segments of rows that have the columns of `SEGMENTS`."""
    return [
        LoadedSegment(
            *(_name(row[:4]), ObjectInfo(*row[4:7])),
            *(index_id, *row[7:], json.loads(foreign or "{}")),
        )
        for *row, index_id, foreign in _cells(rows)
    ]


def parse_foreign(rows: pa.Table) -> Iterator[ForeignRows]:
    """Yield the segments' rows that belong to no block, by segment and table."""
    texts = rows["foreign_rows"]
    if texts.null_count == len(texts):  # as nearly always: blocks take an object of each
        return
    for blocks, text in zip(row_blocks(rows), texts.to_pylist(), strict=True):
        for table, count in json.loads(text or "{}").items():
            yield ForeignRows(table, blocks, count)


def parse_receipts(rows: pa.Table) -> list[Receipt]:
    """The receipts of rows that have the columns of `RECEIPT_ROWS`."""
    return [
        Receipt(_name(name), parse_columns(table, columns), rows, size, sha256, json.loads(raw))
        for *name, table, columns, rows, size, sha256, raw in _cells(rows)
    ]


@lru_cache(maxsize=1024)
def parse_columns(table: str, text: str) -> TableSchema:
    """A table's schema from its columns as JSON; equal columns are one schema."""
    return TableSchema(table, tuple(Column(name, kind) for name, kind in json.loads(text)))


def _cells(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _name(cells: Sequence[Any]) -> SegmentName:
    chain_id, version, first, last = cells
    return SegmentName(chain_id, version, BlockRange(first, last))


def manifest_rows(
    segments: Iterable[LoadedSegment], receipts: Iterable[Receipt]
) -> Iterator[dict[str, Any]]:
    """The rows of a manifest, which have `MANIFEST`: of these segments with their receipts."""
    lists = defaultdict[BlockRange, list[dict[str, Any]]](list)
    for each in sorted(receipts, key=lambda receipt: receipt.table):
        own = (
            *(each.table, json.dumps([[c.name, c.type] for c in each.schema.columns])),
            *(each.rows, each.bytes, each.sha256, json.dumps(dict(each.raw_cells))),
        )
        lists[each.blocks].append(dict(zip(RECEIPTS.names, own, strict=True)))
    for segment in segments:
        name, info = segment.name, segment.info
        foreign = json.dumps(segment.foreign_rows) if segment.foreign_rows else None
        row = (
            *(name.chain_id, name.version, name.blocks.first, name.blocks.last),
            *(info.key, info.size, info.version),
            *(segment.sha256, segment.segment_id, segment.previous_id),
            *(segment.rows, segment.bytes, segment.index_id, foreign, lists[segment.blocks]),
        )
        yield dict(zip(MANIFEST.names, row, strict=True))
