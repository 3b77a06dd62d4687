"""The archive's index: what is there, how far it is complete, what is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporters.archive.entries import Entry, Json, range_json, range_of
from exporters.archive.shards import (
    FORMAT,
    SHARD_BLOCKS,
    Shard,
    json_lines,
    parsed,
    shard_blocks,
    shard_path,
)
from exporters.archive.sums import TableSums, completeness, sums_of, total
from transforms.blocks import BlockRange
from transforms.tables.registry import HISTORY_TABLES

_RUNS = ("covered", "windowed")


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """A shard as the index knows it: its file's size in bytes and hash, and its sums per table."""

    number: int
    size: int
    sha256: str
    tables: Mapping[str, TableSums]

    @classmethod
    def of(cls, shard: Shard, data: bytes) -> ShardSummary:
        """Sum up a shard that is stored as `data`."""
        tables: dict[str, list[Entry]] = {}
        for entry in shard.entries:
            tables.setdefault(entry.table, []).append(entry)
        sums = {table: sums_of(tables[table]) for table in sorted(tables)}
        return cls(shard.number, len(data), hashlib.sha256(data).hexdigest(), sums)

    @property
    def blocks(self) -> BlockRange:
        """The blocks in which its ZIPs begin."""
        return shard_blocks(self.number)

    def reaches(self, blocks: BlockRange) -> bool:
        """Whether a ZIP of this shard holds one of these blocks."""
        return any(run.overlaps(blocks) for sums in self.tables.values() for run in sums.covered)


@dataclass(frozen=True, slots=True)
class ArchiveIndex:
    """What a chain's archive holds, from the sums of its shards."""

    chain_id: str
    shards: tuple[ShardSummary, ...] = ()

    def including(self, fresh: Iterable[ShardSummary]) -> ArchiveIndex:
        """The index with shards added or replaced by number."""
        shards = {shard.number: shard for shard in (*self.shards, *fresh)}
        return ArchiveIndex(self.chain_id, tuple(shards[number] for number in sorted(shards)))

    @property
    def tables(self) -> dict[str, TableSums]:
        """The sums of every history table over all shards."""
        return {
            table: total(shard.tables[table] for shard in self.shards if table in shard.tables)
            for table in HISTORY_TABLES
        }


def index_bytes(index: ArchiveIndex) -> bytes:
    """The index as JSON."""
    tables = index.tables
    extent = completeness(tables)
    document = {
        "format": FORMAT,
        "chain_id": index.chain_id,
        "first_block": extent.held.first if extent.held else None,
        "last_block": extent.held.last if extent.held else None,
        "complete_until": extent.until,
        "complete": [range_json(run) for run in extent.complete],
        "gaps": [range_json(run) for run in extent.gaps],
        "tables": {table: _sums_json(sums) for table, sums in tables.items()},
        "shards": [_shard_json(shard) for shard in index.shards],
    }
    return json_lines(document)


def parse_index(data: bytes, place: str) -> ArchiveIndex:
    """Read an index; what follows from its shards is computed, not believed."""

    def read(found: Json) -> ArchiveIndex:
        return ArchiveIndex(found["chain_id"], tuple(map(_shard_of, found["shards"])))

    return parsed(data, place, read)


def _sums_json(sums: TableSums) -> Json:
    return {
        "zips": sums.zips,
        "rows": sums.rows,
        "bytes": sums.bytes,
        "windows": sums.windows,
        "window_bytes": sums.window_bytes,
        "covered": [range_json(run) for run in sums.covered],
        "windowed": [range_json(run) for run in sums.windowed],
    }


def _sums_of(found: Json) -> TableSums:
    counts = ("zips", "rows", "bytes", "windows", "window_bytes")
    runs = (tuple(map(range_of, found[name])) for name in _RUNS)
    return TableSums(*(found[name] for name in counts), *runs)


def _shard_json(shard: ShardSummary) -> Json:
    """A shard. Its tables nearly always cover the same blocks, which then stand there once."""
    tables = {table: _sums_json(sums) for table, sums in shard.tables.items()}
    usual = {name: next(iter(tables.values()))[name] for name in _RUNS} if tables else {}
    own = {
        table: {name: value for name, value in sums.items() if usual.get(name) != value}
        for table, sums in tables.items()
    }
    return {
        "path": shard_path(shard.number),
        **range_json(shard.blocks),
        "bytes": shard.size,
        "sha256": shard.sha256,
        **usual,
        "tables": own,
    }


def _shard_of(found: Json) -> ShardSummary:
    usual = {name: found[name] for name in _RUNS if name in found}
    tables = {table: _sums_of(usual | sums) for table, sums in found["tables"].items()}
    return ShardSummary(found["from"] // SHARD_BLOCKS, found["bytes"], found["sha256"], tables)
