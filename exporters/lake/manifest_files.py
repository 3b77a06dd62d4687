"""Manifests as files of the lake: their columns, and what their table's log says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from exporters.lake.tables import NewFile
from transforms.block_range import BlockRange
from transforms.lake.statistics import Statistics
from transforms.tables.file_columns import RECEIPT_LIST, FileColumn
from transforms.warehouse.manifests.manifest_rows import SEGMENTS

_TYPES = {pa.string(): "string", pa.int32(): "integer", pa.int64(): "long"}
_COLUMNS = (
    *(FileColumn(field.name, _TYPES[field.type]) for field in SEGMENTS),
    FileColumn("receipts", RECEIPT_LIST),
)


def manifest_file(path: Path, blocks: BlockRange, sha256: str, csv: str = "") -> NewFile:
    """A manifest that is to be put into a table. No reader skips one of the few that there are."""
    rows = pq.read_metadata(path).num_rows
    text = json.dumps({"numRecords": rows, "minValues": {}, "maxValues": {}, "nullCount": {}})
    return NewFile(path, blocks, sha256, Statistics(rows, text), _COLUMNS, csv)
