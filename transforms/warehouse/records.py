"""The tables `strata.segments` and `strata.receipts`: what volumes and catalog know of loads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from transforms.blocks import BlockRange
from transforms.duck import Connection, quote_name
from transforms.objects import ObjectInfo
from transforms.segments.names import SegmentName
from transforms.warehouse.receipts import LoadedSegment, Receipt, dump_columns, parse_columns

_SEGMENTS = pa.schema(
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
    ]
)
_RECEIPTS = pa.schema(
    [
        ("chain_id", pa.string()),
        ("schema_version", pa.int32()),
        ("first_block", pa.int64()),
        ("last_block", pa.int64()),
        ("table_name", pa.string()),
        ("columns", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
        ("raw_cells", pa.string()),
    ]
)


def write_records(
    con: Connection, volume: str, segments: Sequence[LoadedSegment], receipts: Sequence[Receipt]
) -> None:
    """Create both tables in the schema `strata` of an attached file."""
    schema = f"{quote_name(volume)}.strata"
    con.execute(f"create schema {schema}")
    for name, rows in (
        ("segments", segment_table(segments)),
        ("receipts", pa.Table.from_pylist([_receipt_row(r) for r in receipts], schema=_RECEIPTS)),
    ):
        con.register("records", rows)
        con.execute(f"create table {schema}.{name} as from records")
        con.unregister("records")


def read_segments(con: Connection, source: str) -> list[LoadedSegment]:
    """Read a `strata.segments` table, ascending by block."""
    rows = con.sql(f"from {source} order by first_block").to_arrow_table().to_pylist()
    return [_segment(row) for row in rows]


def read_receipts(con: Connection, query: str, values: Mapping[str, str]) -> list[Receipt]:
    """Read receipts by a query over `strata.receipts` with its bound values."""
    rows = con.sql(query, params=dict(values)).to_arrow_table().to_pylist()
    return [_receipt(row) for row in rows]


def _name(row: Mapping[str, Any]) -> SegmentName:
    blocks = BlockRange(row["first_block"], row["last_block"])
    return SegmentName(row["chain_id"], row["schema_version"], blocks)


def _name_row(name: SegmentName) -> dict[str, Any]:
    return {
        "chain_id": name.chain_id,
        "schema_version": name.version,
        "first_block": name.blocks.first,
        "last_block": name.blocks.last,
    }


def _segment_row(segment: LoadedSegment) -> dict[str, Any]:
    return _name_row(segment.name) | {
        "source_key": segment.info.key,
        "source_size": segment.info.size,
        "source_version": segment.info.version,
        "zip_sha256": segment.sha256,
        "segment_id": segment.segment_id,
        "previous_id": segment.previous_id,
        "rows": segment.rows,
        "bytes": segment.bytes,
    }


def _segment(row: Mapping[str, Any]) -> LoadedSegment:
    return LoadedSegment(
        _name(row),
        ObjectInfo(row["source_key"], row["source_size"], row["source_version"]),
        row["zip_sha256"],
        row["segment_id"],
        row["previous_id"],
        row["rows"],
        row["bytes"],
    )


def _receipt_row(receipt: Receipt) -> dict[str, Any]:
    return _name_row(receipt.segment) | {
        "table_name": receipt.table,
        "columns": dump_columns(receipt.schema),
        "rows": receipt.rows,
        "bytes": receipt.bytes,
        "sha256": receipt.sha256,
        "raw_cells": json.dumps(dict(receipt.raw_cells)),
    }


def _receipt(row: Mapping[str, Any]) -> Receipt:
    return Receipt(
        _name(row),
        parse_columns(row["table_name"], row["columns"]),
        row["rows"],
        row["bytes"],
        row["sha256"],
        json.loads(row["raw_cells"]),
    )


def segment_table(segments: Sequence[LoadedSegment]) -> pa.Table:
    """The segments as an Arrow table with the columns of `strata.segments`."""
    return pa.Table.from_pylist([_segment_row(segment) for segment in segments], schema=_SEGMENTS)
