"""The rows of segments and receipts, as manifests and files of current state have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_name, quote_text
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


@dataclass(frozen=True, slots=True)
class Origin:
    """Which warehouse files were made for, and upon which snapshot of it."""

    warehouse: str
    snapshot: int


def write_records(
    con: Connection,
    volume: str,
    origin: Origin,
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
) -> None:
    """Create the tables in the schema `strata` of an attached file."""
    schema = f"{quote_name(volume)}.strata"
    con.execute(f"create schema {schema}")
    for name, rows in (
        ("segments", pa.Table.from_pylist(segment_rows(segments), schema=SEGMENTS)),
        ("receipts", pa.Table.from_pylist(receipt_rows(receipts), schema=RECEIPTS)),
    ):
        con.register("records", rows)
        con.execute(f"create table {schema}.{name} as from records")
        con.unregister("records")
    con.execute(
        f"create table {schema}.origin as select {quote_text(origin.warehouse)} as warehouse, "
        f"{origin.snapshot}::bigint as snapshot"
    )


def read_origin(con: Connection) -> Origin:
    """Where a file in use comes from."""
    ((warehouse, snapshot),) = con.execute(
        "select warehouse, snapshot from strata.origin"
    ).fetchall()
    return Origin(warehouse, snapshot)


def read_times(con: Connection, blocks: str) -> Times | None:
    """The first and last time of blocks; `blocks` is SQL for their rows."""
    ((first, last),) = con.execute(
        "select epoch_us(min(vega_time)), epoch_us(max(vega_time)) "  # noqa: S608 - quoted
        f"from {blocks} where isfinite(vega_time)"
    ).fetchall()
    return None if first is None else (first, last)


def read_segments(con: Connection, source: str) -> list[LoadedSegment]:
    """Read a `strata.segments` table, ascending by block."""
    return parse_segments(con.sql(f"from {source} order by first_block").to_arrow_table())


def parse_segments(table: pa.Table) -> list[LoadedSegment]:
    """Segments from the rows of `strata.segments`."""
    return [_segment(row) for row in table.to_pylist()]


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
        "index_id": segment.index_id,
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
        row["index_id"],
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


def segment_rows(segments: Iterable[LoadedSegment]) -> list[dict[str, Any]]:
    """The rows of `strata.segments`."""
    return [_segment_row(segment) for segment in segments]


def receipt_rows(receipts: Iterable[Receipt]) -> list[dict[str, Any]]:
    """The rows of `strata.receipts`."""
    return [_receipt_row(receipt) for receipt in receipts]
