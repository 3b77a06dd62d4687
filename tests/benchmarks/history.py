"""A history as large as that of the network's mainnet, made in a minute: for costs that must not
grow with it.

The warehouse knows every segment and has a receipt for each table; its volumes hold no rows. The
archive's index has every ZIP; those of one table are there, each with a few rows of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv, Entry, SegmentSource, entry_json, schemas_json
from exporters.archive.json_text import FORMAT, written
from exporters.archive.shards import SHARD_BLOCKS
from exporters.archive.stored_shards import put_shard
from exporters.zip_names import csv_name, zip_name
from exporters.zips.part_zip import write_part_zip
from exporters.zips.parts import read_parts
from exporters.zips.runs import Run
from exporters.zips.sources import LocalSource
from tests.archive_kit import resealed
from tests.end_to_end.volumes_kit import bare_volume
from transforms.block_range import BlockRange
from transforms.objects import ObjectInfo
from transforms.segments.segment_name import SegmentName
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256
from transforms.tables.registry import HISTORY_TABLES, TableSchema, known_table
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse_address import open_warehouse

CHAIN = "bench-chain-0001"
TABLE = "orders"
VERSION = 69
BLOCKS = 300
"""Blocks of a segment, as on mainnet."""
VOLUME_SEGMENTS = 100
ROWS = 20
ZIP_BYTES = 1100
"""What the index says of the ZIPs that are not there."""
_SHA256 = "0" * 64
_ID = "Qm"
_ANY = BlockRange(777_777_777, 888_888_888)


@dataclass(frozen=True, slots=True)
class History:
    """Where it lies, and how many segments it has."""

    root: Path
    segments: int

    @property
    def warehouse(self) -> Path:
        """The warehouse's folder."""
        return self.root / "warehouse"

    @property
    def archive(self) -> Path:
        """The archive's folder."""
        return self.root / "archive"

    def zips(self, first: int, count: int) -> list[Path]:
        """The ZIPs of `count` segments from the segment `first` on, counted from 0."""
        folder = self.archive / CHAIN / TABLE
        return [folder / zip_name(CHAIN, TABLE, blocks_of(first + at)) for at in range(count)]


def blocks_of(number: int) -> BlockRange:
    """The blocks of a segment, counted from 0."""
    return BlockRange(number * BLOCKS + 1, (number + 1) * BLOCKS)


def make_history(root: Path, segments: int) -> History:
    """Write a warehouse and an archive of so many segments below `root`."""
    schemas = {table: _schema(table) for table in HISTORY_TABLES}
    _make_warehouse(root / "warehouse", segments, schemas)
    _make_archive(root / "archive", segments, schemas)
    return History(root, segments)


def _schema(table: str) -> TableSchema:
    found = known_table(table, VERSION)
    assert found is not None
    return found.schema


def _make_warehouse(root: Path, segments: int, schemas: dict[str, TableSchema]) -> None:
    volumes = [*_volumes(root, segments, schemas)]
    warehouse = open_warehouse(root)
    warehouse.backing.log.commit(lambda empty: replace(empty, chain_id=CHAIN).with_volumes(volumes))
    warehouse.show()


def _volumes(root: Path, segments: int, schemas: dict[str, TableSchema]) -> Iterator[Volume]:
    backing = open_warehouse(root).backing
    base = replace(backing.log.begin(), number=1)
    for start in range(0, segments, VOLUME_SEGMENTS):
        numbers = range(start, min(start + VOLUME_SEGMENTS, segments))
        names = [SegmentName(CHAIN, VERSION, blocks_of(number)) for number in numbers]
        loaded = [
            LoadedSegment(
                name, ObjectInfo(name.file_name, 1, "1"), "", _SHA256, "", "", 15 * ROWS, 1
            )
            for name in names
        ]
        receipts = [
            Receipt(name, schema, ROWS, 1, _SHA256) for name in names for schema in schemas.values()
        ]
        yield bare_volume(backing, base, loaded, receipts)


def _make_archive(root: Path, segments: int, schemas: dict[str, TableSchema]) -> None:
    (root / CHAIN / TABLE).mkdir(parents=True)
    (root / CHAIN / "index").mkdir()
    lines = {table: _line(_entry(table, schemas[table])) for table in HISTORY_TABLES}
    shards: dict[int, list[str]] = {}
    for number in range(segments):
        blocks = blocks_of(number)
        shard = shards.setdefault(blocks.first // SHARD_BLOCKS, [])
        for table in HISTORY_TABLES:
            if table == TABLE:
                shard.append(_line(_real_entry(root, schemas[table], number)))
                continue
            line = lines[table].replace(str(_ANY.first), str(blocks.first))
            shard.append(line.replace(str(_ANY.last), str(blocks.last)))
    some = schemas_json(_entry(table, schema) for table, schema in schemas.items())
    for number, entries in shards.items():
        document = {
            "format": FORMAT,
            "chain_id": CHAIN,
            "from": number * SHARD_BLOCKS,
            "to": (number + 1) * SHARD_BLOCKS - 1,
            "schemas": some,
            "zips": ["entries"],
        }
        text = written(document).replace(b'"entries"', ",\n".join(entries).encode())
        put_shard(Archive(FolderStore(root), CHAIN), number, resealed(text))


def _line(entry: Entry) -> str:
    return json.dumps(entry_json(entry), separators=(",", ":"))


def _entry(table: str, schema: TableSchema) -> Entry:
    """An entry over blocks that are easily replaced in its line."""
    name = csv_name(CHAIN, table, VERSION, _ANY)
    runs = (Run(100, 100, 1), Run(1000, 4000, 1))
    member = Csv(name, ROWS, 1, _SHA256, schema, runs)
    path = f"{table}/{zip_name(CHAIN, table, _ANY)}"
    segment = SegmentSource(_ANY, VERSION, _ID, _SHA256, "")
    return Entry(table, path, ZIP_BYTES, _SHA256, segment, member)


def _real_entry(root: Path, schema: TableSchema, number: int) -> Entry:
    blocks = blocks_of(number)
    body = "".join(
        f"\\x{hashlib.sha256(f'{number} {row}'.encode()).hexdigest()}"
        + ",x" * (len(schema.columns) - 1)
        + "\n"
        for row in range(ROWS)
    ).encode()
    path = root / CHAIN / TABLE / zip_name(CHAIN, TABLE, blocks)
    name = csv_name(CHAIN, TABLE, VERSION, blocks)
    write_part_zip(path, name, schema.header, [body], ROWS)
    (part,) = read_parts(LocalSource.open(path))
    text = hashlib.sha256(schema.header + body).hexdigest()
    runs = (part.member.header, part.member.body)
    csv = Csv(name, ROWS, part.member.whole.plain, text, schema, runs)
    segment = SegmentSource(blocks, VERSION, _ID, _SHA256, "")
    size = path.stat().st_size
    return Entry(TABLE, f"{TABLE}/{path.name}", size, content_sha256(path), segment, csv)
