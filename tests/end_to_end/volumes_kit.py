"""Warehouses of very many small volumes, made in seconds: one for each block, without rows.

Each has a data file all the same, as those of a history have, so that queries open them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.segments_kit import KIT_CHAIN
from transforms.block_range import BlockRange
from transforms.duck import working_connection
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder
from transforms.segments.segment_name import SegmentName
from transforms.tables.file_columns import file_rows
from transforms.tables.registry import known_table
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_files import store_new
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import empty_sql, write_sql
from transforms.warehouse.manifests.manifest import write_manifest
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import UNSTORED, Volume, shapes_of
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

TABLE = "trades"


def many_volumes(root: Path, count: int) -> Warehouse:
    """A warehouse with the blocks from 1 to `count`, each a segment and a volume of its own."""
    warehouse = open_warehouse(root)
    warehouse.backing.log.begin()
    with TemporaryDirectory() as folder:
        volumes = list(_volumes(warehouse, count, Path(folder)))
    warehouse.backing.log.commit(
        lambda newest: replace(newest, chain_id=KIT_CHAIN).with_volumes(volumes)
    )
    return warehouse


def _volumes(warehouse: Warehouse, count: int, folder: Path) -> Iterator[Volume]:
    known, snapshot = known_table(TABLE, 1), warehouse.backing.log.begin()
    assert known is not None
    schema, header = known.schema, known.schema.header
    empty = (0, len(header), hashlib.sha256(header).hexdigest())
    empty_file = folder / "empty.parquet"
    with working_connection(folder) as con:
        rows = f"from {empty_sql(TABLE, schema.columns)}"
        con.execute(write_sql(file_rows(TABLE, schema.columns, f"({rows})"), empty_file, 1))
    for height in range(1, count + 1):
        name = SegmentName(KIT_CHAIN, 1, BlockRange(height, height))
        source = ObjectInfo(name.file_name, 1, "1")
        segments = [LoadedSegment(name, source, "", "0" * 64, "", "", 0, 1)]
        receipts = [Receipt(name, schema, *empty)]
        yield bare_volume(warehouse.backing, snapshot, segments, receipts)


def bare_volume(
    backing: Backing,
    base: Snapshot,
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
) -> Volume:
    """Store a volume without data files and without an index file."""
    blocks = BlockRange(segments[0].blocks.first, segments[-1].blocks.last)
    volume = Volume("history", UNSTORED, blocks, len(segments), 1, shapes_of(receipts))
    with scratch_folder(backing.scratch) as scratch:
        path = scratch / "manifest.parquet"
        write_manifest(path, base.number, volume, segments, receipts)
        return replace(volume, file=store_new(backing, "manifests", blocks, path))
