"""The rows of segments and receipts, as manifests have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.objects import ObjectInfo
from transforms.segments.segment_name import SegmentName
from transforms.warehouse.manifests.receipts import (
    LoadedSegment,
    Receipt,
    dump_columns,
    parse_columns,
)
from transforms.warehouse.manifests.shapes import Times

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
    ]
)

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


def read_times(con: Connection, blocks: str) -> Times | None:
    """The first and last time of blocks; `blocks` is SQL for their rows."""
    ((first, last),) = con.execute(
        "select epoch_us(min(vega_time)), epoch_us(max(vega_time)) "  # noqa: S608 - quoted
        f"from {blocks} where isfinite(vega_time)"
    ).fetchall()
    return None if first is None else (first, last)


def parse_segments(table: pa.Table) -> list[LoadedSegment]:
    """Segments from the rows of `strata.segments`, whose columns are those of `SEGMENTS`."""
    return [LoadedSegment(_name(row[:4]), ObjectInfo(*row[4:7]), *row[7:]) for row in _rows(table)]


def read_receipts(con: Connection, query: str, values: Mapping[str, str | None]) -> list[Receipt]:
    """Read receipts by a query over `strata.receipts` with its bound values."""
    receipts = []
    for *name, table, columns, rows, size, sha256, raw in _rows(
        con.sql(query, params=dict(values)).to_arrow_table()
    ):
        schema, cells = parse_columns(table, columns), json.loads(raw)
        receipts.append(Receipt(_name(name), schema, rows, size, sha256, cells))
    return receipts


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _name(cells: Sequence[Any]) -> SegmentName:
    chain_id, version, first, last = cells
    return SegmentName(chain_id, version, BlockRange(first, last))


def segment_rows(segments: Iterable[LoadedSegment]) -> list[dict[str, Any]]:
    """The rows of `strata.segments`."""
    cells = (
        (
            *(each.name.chain_id, each.name.version, each.blocks.first, each.blocks.last),
            *(each.info.key, each.info.size, each.info.version),
            *(each.sha256, each.segment_id, each.previous_id),
            *(each.rows, each.bytes, each.index_id),
        )
        for each in segments
    )
    return [dict(zip(SEGMENTS.names, row, strict=True)) for row in cells]


def receipt_rows(receipts: Iterable[Receipt]) -> list[dict[str, Any]]:
    """The rows of `strata.receipts`, without what the segment's row says."""
    cells = (
        (
            *(each.table, dump_columns(each.schema), each.rows, each.bytes, each.sha256),
            json.dumps(dict(each.raw_cells)),
        )
        for each in receipts
    )
    return [dict(zip(RECEIPTS.names, row, strict=True)) for row in cells]
