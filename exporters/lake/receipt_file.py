"""The lake's own table `receipts`: of each table of each segment, what its CSV was.

A CSV is rendered from the lake by its columns in order, with their PostgreSQL types, and is right
where its SHA-256 is the one here (spec 2.8).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.lake.statistics import Statistics
from transforms.segments.segment_name import SegmentName
from transforms.tables.file_columns import COLUMN_LIST, FileColumn
from transforms.tables.registry import Column, TableSchema
from transforms.warehouse.manifests.receipts import Receipt

COLUMNS = (
    FileColumn("table_name", "string", has_statistics=True),
    FileColumn("_segment", "long", has_statistics=True),
    FileColumn("last_block", "long", has_statistics=True),
    FileColumn("schema_version", "integer"),
    FileColumn("columns", COLUMN_LIST),
    FileColumn("rows", "long"),
    FileColumn("bytes", "long"),
    FileColumn("sha256", "string"),
)
"""The columns of the table; `_segment` is the segment's first block, `bytes` those of the CSV."""

_SCHEMA = pa.schema(
    [
        ("table_name", pa.string()),
        ("_segment", pa.int64()),
        ("last_block", pa.int64()),
        ("schema_version", pa.int32()),
        ("columns", pa.list_(pa.struct([("name", pa.string()), ("type", pa.string())]))),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
    ]
)

_GROUP_ROWS = 15 * 1024
"""The rows of about a thousand segments: what a reader of some of them decodes at least."""


def write_receipts(path: Path, receipts: Sequence[Receipt]) -> Statistics:
    """Write the receipts of a run of segments as Parquet; returns what the log says of the file."""
    rows = receipt_rows(receipts)
    pq.write_table(
        pa.Table.from_pylist(rows, schema=_SCHEMA),
        path,
        compression="zstd",
        compression_level=3,
        row_group_size=_GROUP_ROWS,
    )
    return receipt_statistics(rows)


def receipt_rows(receipts: Sequence[Receipt]) -> list[dict[str, Any]]:
    """The rows that say so, ascending by segment and table."""
    return sorted(map(_row, receipts), key=lambda row: (row["_segment"], row["table_name"]))


def receipt_statistics(rows: Sequence[dict[str, Any]]) -> Statistics:
    """What the log says of a file with these rows."""
    described = [column.name for column in COLUMNS if column.has_statistics]
    values = {name: [row[name] for row in rows] for name in described}
    summary = {
        "numRecords": len(rows),
        "minValues": {name: min(cells) for name, cells in values.items() if cells},
        "maxValues": {name: max(cells) for name, cells in values.items() if cells},
        "nullCount": dict.fromkeys(described, 0),
    }
    return Statistics(len(rows), json.dumps(summary, separators=(",", ":")))


def read_receipt_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of receipts. Raises `IntegrityError` where it cannot be read."""
    try:
        # A file that Python opens tells why it cannot be read, by number.
        with path.open("rb") as stream, pq.ParquetFile(stream) as file:
            if not file.schema_arrow.equals(_SCHEMA):
                raise IntegrityError(f"{path.name} of the lake has not the columns of receipts")
            rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
            return rows
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise IntegrityError(f"{path.name} of the lake cannot be read: {error}") from error


def parse_receipts(rows: Sequence[dict[str, Any]], chain_id: str) -> list[Receipt]:
    """The receipts of a chain's rows."""
    return [_receipt(row, chain_id) for row in rows]


def _row(receipt: Receipt) -> dict[str, Any]:
    return {
        "table_name": receipt.table,
        "_segment": receipt.blocks.first,
        "last_block": receipt.blocks.last,
        "schema_version": receipt.segment.version,
        "columns": [{"name": c.name, "type": c.type} for c in receipt.schema.columns],
        "rows": receipt.rows,
        "bytes": receipt.bytes,
        "sha256": receipt.sha256,
    }


def _receipt(row: dict[str, Any], chain_id: str) -> Receipt:
    blocks = BlockRange(row["_segment"], row["last_block"])
    columns = tuple(Column(column["name"], column["type"]) for column in row["columns"])
    return Receipt(
        SegmentName(chain_id, row["schema_version"], blocks),
        TableSchema(row["table_name"], columns),
        row["rows"],
        row["bytes"],
        row["sha256"],
    )
