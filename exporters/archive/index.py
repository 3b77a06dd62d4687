"""The index: how far an archive goes, and a summary of each of its shards.

What one more ZIP changes are the summary of its shard and the sums.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from exporters.archive.block_days import BlockDay, day_json, day_of, days_of, merged_days
from exporters.archive.entries import (
    Entry,
    Json,
    range_json,
    range_of,
    times_json,
    times_of,
)
from exporters.archive.json_text import FORMAT, parsed, written
from exporters.archive.lake_place import LAKE
from exporters.archive.shards import SHARD_BLOCKS, Shard, shard_blocks, shard_path, shard_stem
from exporters.archive.sums import (
    Completeness,
    TableSums,
    completeness,
    entries_chain,
    id_run_json,
    id_run_of,
    total,
)
from transforms.block_range import BlockRange
from transforms.collector import collector_paused
from transforms.coverage import Coverage, difference, union
from transforms.segments.id_chain import IdChain, IdRun, id_chain
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.log.seen import SeenSnapshot

_MOST_RECORDS = 8
"""Of how many warehouses an index has records."""


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """A shard as the index knows it: its file's size and hash, its sums per table, ids and days.

    `row` is its JSON in the index, of which no more is read than somebody asks for: an index of
    75,000 segments has a thousand.
    """

    row: Json

    @classmethod
    def of(cls, shard: Shard, data: bytes) -> ShardSummary:
        """Sum up a shard that is stored as `data`."""
        tables: dict[str, list[Entry]] = {}
        for entry in shard.entries:
            tables.setdefault(entry.table, []).append(entry)
        sums = {table: TableSums.of(tables[table]).to_json() for table in sorted(tables)}
        # Tables nearly always cover the same blocks, which then stand there once.
        usual = next(iter(sums.values()))["covered"] if sums else []
        for each in sums.values():
            if each["covered"] == usual:
                del each["covered"]
        sha256, hashes = (hashlib.sha256(text).hexdigest() for text in (data, shard.hashes()))
        location = {"path": shard_path(shard.number, sha256), **range_json(shard.blocks)}
        facts = {"bytes": len(data), "sha256": sha256, "hashes_sha256": hashes}
        ids = [id_run_json(run) for run in entries_chain(shard.entries).runs]
        days = [day_json(day) for day in days_of(shard.entries)]
        times = times_json(_spanned(entry.times for entry in tables.get("blocks", ())))
        with_days = {"days": days} if days else {}
        own = {"covered": usual, "tables": sums, "ids": ids}
        return cls({**location, **facts, **own, **with_days, **times})

    @property
    def number(self) -> int:
        """The number of the shard."""
        return int(self.row["from"]) // SHARD_BLOCKS

    @property
    def blocks(self) -> BlockRange:
        """The blocks in which its ZIPs begin."""
        return shard_blocks(self.number)

    @property
    def path(self) -> str:
        """The path of its file below the chain's folder."""
        return shard_path(self.number, self.sha256)

    @property
    def stem(self) -> str:
        """The path of its page and its hash list, without an ending."""
        return shard_stem(self.number)

    @property
    def sha256(self) -> str:
        """The hash of its file."""
        return str(self.row["sha256"])

    @property
    def hashes_sha256(self) -> str:
        """The hash of the file with its ZIPs' hashes."""
        return str(self.row["hashes_sha256"])

    @property
    def tables(self) -> Mapping[str, TableSums]:
        """The sums of each table that it has."""
        usual = tuple(map(range_of, self.row["covered"]))
        return {table: TableSums.parse(sums, usual) for table, sums in self.row["tables"].items()}

    @property
    def totals(self) -> TableSums:
        """What it holds of all tables together."""
        return total([*self.tables.values()])

    @property
    def ids(self) -> Iterator[IdRun]:
        """The unbroken runs of its segments in the network's chain of ids."""
        return map(id_run_of, self.row["ids"])

    @property
    def times(self) -> tuple[str, str] | None:
        """When its first and last block were made, where its ZIPs of blocks say it."""
        return times_of(self.row)

    @property
    def days(self) -> Iterator[BlockDay]:
        """The UTC days on which its segments begin or end."""
        return map(day_of, self.row.get("days", ()))

    def reaches(self, blocks: BlockRange) -> bool:
        """Whether one of its ZIPs holds one of these blocks."""
        own = (sums.get("covered", ()) for sums in self.row["tables"].values())
        runs = chain(self.row["covered"], *own)
        return any(range_of(run).overlaps(blocks) for run in runs)


@dataclass(frozen=True)
class ArchiveIndex:
    """What a chain's archive holds: the sums over each history table, and its shards by number.

    Shards ascend; `has_lake` says that the tables lie beside it as Delta tables, too; `warehouses`
    is what publishers recorded of theirs, the newest last.
    """

    chain_id: str
    tables: Mapping[str, TableSums] = field(
        default_factory=lambda: dict.fromkeys(HISTORY_TABLES, TableSums())
    )
    shards: Mapping[int, ShardSummary] = field(default_factory=dict)
    has_lake: bool = False
    warehouses: tuple[SeenSnapshot, ...] = ()

    def reaching(self, blocks: BlockRange) -> Iterator[int]:
        """Yield the numbers of the shards with a ZIP that holds one of these blocks, ascending."""
        for number, shard in self.shards.items():
            # A ZIP holds no blocks before those of its shard.
            if number * SHARD_BLOCKS > blocks.last:
                return
            if shard.reaches(blocks):
                yield number

    @cached_property
    def ids(self) -> IdChain:
        """How far the network's chain of ids is unbroken over the segments of all ZIPs."""
        return id_chain(run for shard in self.shards.values() for run in shard.ids)

    @cached_property
    def days(self) -> tuple[BlockDay, ...]:
        """The UTC days on which segments begin or end, ascending, and their blocks."""
        return merged_days(day for shard in self.shards.values() for day in shard.days)

    @cached_property
    def times(self) -> tuple[str, str] | None:
        """When the first and the last block that are known were made; None without any."""
        return _spanned(shard.times for shard in self.shards.values())

    def including(self, fresh: Iterable[ShardSummary]) -> ArchiveIndex:
        """The index with shards added or replaced by number, and all sums taken again."""
        shards = {**self.shards, **{summary.number: summary for summary in fresh}}
        tables = _totals([shard.row for shard in shards.values()])
        return replace(self, tables=tables, shards=dict(sorted(shards.items())))

    def recording(self, seen: SeenSnapshot | None) -> ArchiveIndex:
        """The index with the record of a publisher's warehouse, if that has further blocks."""
        known = {record.warehouse: record for record in self.warehouses}
        former = known.pop(seen.warehouse, None) if seen else None
        if seen is None or (former and not difference(seen.blocks, former.blocks)):
            return self
        return replace(self, warehouses=(*[*known.values()][1 - _MOST_RECORDS :], seen))


def _totals(shards: Collection[Json]) -> dict[str, TableSums]:
    """The sums of each table over the rows of shards.

    Each row is gone through once, as it lies in memory. Most tables have the blocks of all others,
    of which thousands of shards are joined once then.
    """
    totals = {table: [0, 0, 0, 0] for table in HISTORY_TABLES}
    for row in shards:
        for table, sums in row["tables"].items():
            if table in totals:
                own = totals[table]
                own[0] += sums["zips"]
                own[1] += sums["rows"]
                own[2] += sums["bytes"]
                own[3] += "covered" not in sums
    usual = union(range_of(run) for row in shards for run in row["covered"])
    return {
        table: TableSums(
            zips, rows, size, usual if alike == len(shards) else _covered(shards, table)
        )
        for table, (zips, rows, size, alike) in totals.items()
    }


def _covered(shards: Iterable[Json], table: str) -> Coverage:
    """The blocks of a table of which not all shards have their usual ones."""
    rows = ((row, row["tables"][table]) for row in shards if table in row["tables"])
    runs = (sums.get("covered", row["covered"]) for row, sums in rows)
    return union(map(range_of, chain.from_iterable(runs)))


def extent_json(index: ArchiveIndex, extent: Completeness) -> Json:
    """How documents that say how far an archive goes begin."""
    return {
        "format": FORMAT,
        "chain_id": index.chain_id,
        "first_block": extent.span.first if extent.span else None,
        "last_block": extent.span.last if extent.span else None,
        **times_json(index.times),
        "complete_until": extent.until,
    }


def index_bytes(index: ArchiveIndex) -> bytes:
    """The index as JSON."""
    extent = completeness(index.tables)
    return written(
        {
            **extent_json(index, extent),
            "complete": [range_json(run) for run in extent.complete],
            "gaps": [range_json(run) for run in extent.gaps],
            "ids": [
                range_json(run.blocks) | {"id": run.segment_id, "previous_id": run.previous_id}
                for run in index.ids.runs
            ],
            **({"lake": {"format": "delta", "path": LAKE}} if index.has_lake else {}),
            "warehouses": [record.row() for record in index.warehouses],
            "tables": {table: sums.to_json() for table, sums in index.tables.items()},
            "shards": [shard.row for shard in index.shards.values()],
        }
    )


@collector_paused()
def parse_index(data: bytes, place: str) -> ArchiveIndex:
    """Read an index. Raises `IntegrityError` naming the place where it is damaged."""
    return parsed(data, place, _read)


def _read(document: Json) -> ArchiveIndex:
    head = document["tables"]
    tables = {table: TableSums.parse(head[table]) for table in HISTORY_TABLES}
    shards = {shard.number: shard for shard in map(ShardSummary, document["shards"])}
    warehouses = tuple(map(SeenSnapshot.parse, document["warehouses"]))
    return ArchiveIndex(document["chain_id"], tables, shards, "lake" in document, warehouses)


def _spanned(optional_spans: Iterable[tuple[str, str] | None]) -> tuple[str, str] | None:
    """From the first of the first times to the last of the last ones."""
    spans = [times for times in optional_spans if times is not None]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None
