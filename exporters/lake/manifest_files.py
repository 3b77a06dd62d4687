"""Manifests as files of the lake: their columns, and what their table's log says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.lake.statistics import Statistics
from transforms.tables.file_columns import RECEIPT_LIST, FileColumn
from transforms.warehouse.manifests.manifest import read_columns
from transforms.warehouse.manifests.manifest_rows import SEGMENTS

_TYPES = {pa.string(): "string", pa.int32(): "integer", pa.int64(): "long"}
_DESCRIBED = ("first_block", "last_block")
COLUMNS = (
    *(FileColumn(field.name, _TYPES[field.type], field.name in _DESCRIBED) for field in SEGMENTS),
    FileColumn("receipts", RECEIPT_LIST),
)
"""The columns of the table."""


def segment_blocks(path: Path) -> list[BlockRange]:
    """The blocks of the segments of a manifest. Raises `IntegrityError` where it is damaged."""
    table = read_columns(path, _DESCRIBED)
    return [*map(BlockRange, *(table.column(name).to_pylist() for name in _DESCRIBED))]


def manifest_statistics(path: Path) -> Statistics:
    """What the log says of a manifest. Raises `IntegrityError` where it is damaged."""
    blocks = segment_blocks(path)
    firsts, lasts = [item.first for item in blocks], [item.last for item in blocks]
    summary = {
        "numRecords": len(blocks),
        "minValues": dict(zip(_DESCRIBED, (min(firsts), min(lasts)), strict=True)),
        "maxValues": dict(zip(_DESCRIBED, (max(firsts), max(lasts)), strict=True)),
        "nullCount": dict.fromkeys(_DESCRIBED, 0),
    }
    return Statistics(len(blocks), json.dumps(summary, separators=(",", ":")))
