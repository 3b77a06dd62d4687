"""The index: how far an archive goes, and a line for each of its shards.

What one more ZIP changes are the lines of its shard and the sums; the other lines, however many
there are, are carried over as text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
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
from exporters.archive.json_text import (
    FORMAT,
    LINE,
    UNREADABLE,
    dumps,
    field_line,
    parsed,
    proven_text,
    sealed_lines,
    unreadable,
)
from exporters.archive.lake_place import LAKE
from exporters.archive.shards import SHARD_BLOCKS, Shard, shard_blocks, shard_path
from exporters.archive.sums import (
    Completeness,
    TableSums,
    Totals,
    completeness,
    entries_chain,
    exchanged,
    id_run_json,
    id_run_of,
    sums_of,
    total,
)
from transforms.block_range import BlockRange
from transforms.segments.id_chain import IdChain, IdRun, id_chain
from transforms.tables.registry import HISTORY_TABLES

_RUNS = ("covered", "bundled")
_SHARDS = b',\n"shards":[\n'
_SHARDS_END = b"\n]\n}\n"
_COUNTS = ("zips", "rows", "bytes", "bundles", "bundle_bytes")
# Of a shard's line what lists of shards need: to read all of it takes ten times as long.
_SUMS = re.compile(",".join(rf'"{name}":(\d+)' for name in _COUNTS))
_IDS, _DAYS, _DECODER = '"ids":', '"days":', json.JSONDecoder()
_LINE_START = re.compile(
    r'\{"path":"index/(\d+)\.json","from":\d+,"to":\d+,"bytes":\d+,'
    '"sha256":"([0-9a-f]{64})","hashes_sha256":"([0-9a-f]{64})",'
)


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """A shard as the index knows it: its file's size in bytes and hash, and its sums per table.

    `hashes_sha256` is the hash of the file with its ZIPs' hashes, `ids` are the unbroken runs of
    its segments in the network's chain of ids, `times` those of its first and last block, where
    its ZIPs of blocks say them, `days` the UTC days on which its segments begin or end.
    """

    number: int
    size: int
    sha256: str
    hashes_sha256: str
    tables: Mapping[str, TableSums]
    ids: tuple[IdRun, ...] = ()
    times: tuple[str, str] | None = None
    days: tuple[BlockDay, ...] = ()

    @classmethod
    def of(cls, shard: Shard, data: bytes) -> ShardSummary:
        """Sum up a shard that is stored as `data`."""
        tables: dict[str, list[Entry]] = {}
        for entry in shard.entries:
            tables.setdefault(entry.table, []).append(entry)
        sums = {table: sums_of(tables[table]) for table in sorted(tables)}
        ids = entries_chain(shard.entries).runs
        times = _spanned(entry.times for entry in tables.get("blocks", ()))
        days = days_of(shard.entries)
        sha256, hashes = (hashlib.sha256(text).hexdigest() for text in (data, shard.hashes()))
        return cls(shard.number, len(data), sha256, hashes, sums, ids, times, days)

    @property
    def blocks(self) -> BlockRange:
        """The blocks in which its ZIPs begin."""
        return shard_blocks(self.number)

    def line(self) -> str:
        """The summary as JSON.

        Its tables nearly always cover the same blocks, which then stand there once.
        """
        tables = {table: _sums_json(sums) for table, sums in self.tables.items()}
        usual = {name: next(iter(tables.values()))[name] for name in _RUNS} if tables else {}
        own = {
            table: {name: value for name, value in sums.items() if usual.get(name) != value}
            for table, sums in tables.items()
        }
        location = {"path": shard_path(self.number), **range_json(self.blocks)}
        hashes = {"sha256": self.sha256, "hashes_sha256": self.hashes_sha256}
        facts = {"bytes": self.size, **hashes, **usual, "tables": own}
        ids = [id_run_json(run) for run in self.ids]
        days = {"days": list(map(day_json, self.days))} if self.days else {}
        return dumps({**location, **facts, "ids": ids, **days, **times_json(self.times)})

    @classmethod
    def parse(cls, line: str) -> ShardSummary:
        """Read a line back."""
        summary = json.loads(line)
        usual = {name: summary[name] for name in _RUNS if name in summary}
        tables = {table: _sums_of(usual | sums) for table, sums in summary["tables"].items()}
        ids = tuple(map(id_run_of, summary["ids"]))
        about = (summary["bytes"], summary["sha256"], summary["hashes_sha256"])
        days = tuple(map(day_of, summary.get("days", ())))
        return cls(summary["from"] // SHARD_BLOCKS, *about, tables, ids, times_of(summary), days)


@dataclass(frozen=True, slots=True)
class ShardTotals:
    """A shard as a line of a list: its hash, and what it holds of all tables together."""

    number: int
    sha256: str
    totals: Totals
    times: tuple[str, str] | None = None

    @classmethod
    def parse(cls, number: int, line: str) -> ShardTotals:
        """Read a shard's line, no more of it than this."""
        counts = [sum(map(int, each)) for each in zip(*_SUMS.findall(line), strict=True)]
        zips, rows, size, bundles, bundle_bytes = counts or [0] * len(_COUNTS)
        grand_total = Totals(zips + bundles, rows, size + bundle_bytes)
        return cls(number, _line_start(line)[2], grand_total, _times_in(line))

    @property
    def blocks(self) -> BlockRange:
        """The blocks in which its ZIPs begin."""
        return shard_blocks(self.number)

    @property
    def path(self) -> str:
        """Where it lies below the chain's folder, without an ending."""
        return shard_path(self.number).removesuffix(".json")


@dataclass(frozen=True)
class ArchiveIndex:
    """What a chain's archive holds: the sums over each history table, and its shards.

    `lines` has each shard's summary as text, by number, ascending; `has_lake` says that the tables
    lie beside it as Delta tables, too.
    """

    chain_id: str
    tables: Mapping[str, TableSums] = field(
        default_factory=lambda: dict.fromkeys(HISTORY_TABLES, TableSums())
    )
    lines: Mapping[int, str] = field(default_factory=dict)
    has_lake: bool = False

    @cached_property
    def shards(self) -> tuple[ShardSummary, ...]:
        """The summaries of all shards, ascending: a third of a second for 75,000 segments."""
        return tuple(map(ShardSummary.parse, self.lines.values()))

    def reaching(self, blocks: BlockRange) -> Iterator[int]:
        """Yield the numbers of the shards with a ZIP that holds one of these blocks, ascending."""
        for number, line in self.lines.items():
            # A ZIP holds no blocks before those of its shard.
            if number * SHARD_BLOCKS > blocks.last:
                return
            if _reaches(json.loads(line), blocks):
                yield number

    def totals(self, numbers: Iterable[int] | None = None) -> Iterator[ShardTotals]:
        """Yield what the shards (default: all) hold, ascending, for lists on pages."""
        for number in self.lines if numbers is None else numbers:
            if number in self.lines:
                yield ShardTotals.parse(number, self.lines[number])

    def hashes(self) -> Iterator[tuple[int, str, str]]:
        """Yield number and hash of each shard, and of its list of hashes."""
        for number, line in self.lines.items():
            start = _line_start(line)
            yield number, start[2], start[3]

    @cached_property
    def ids(self) -> IdChain:
        """How far the network's chain of ids is unbroken over the segments of all ZIPs."""
        texts = (line.partition(_IDS)[2] for line in self.lines.values())
        return id_chain(run for text in texts for run in _id_runs(text))

    @cached_property
    def days(self) -> tuple[BlockDay, ...]:
        """The UTC days on which segments begin or end, ascending, and their blocks."""
        return merged_days(day for line in self.lines.values() for day in _days_in(line))

    @cached_property
    def times(self) -> tuple[str, str] | None:
        """When the first and the last block that are known were made; None without any."""
        lines = list(self.lines.values())
        ends = (next(filter(None, map(_times_in, each)), None) for each in (lines, lines[::-1]))
        return _spanned(ends)

    def including(self, fresh: Iterable[ShardSummary]) -> ArchiveIndex:
        """The index with shards added or replaced by number."""
        lines, tables, is_grown = dict(self.lines), dict(self.tables), True
        for summary in fresh:
            before = lines.get(summary.number)
            old_sums = ShardSummary.parse(before).tables if before else {}
            lines[summary.number] = summary.line()
            for table in HISTORY_TABLES:
                old, new = old_sums.get(table, TableSums()), summary.tables.get(table, TableSums())
                changed = exchanged(tables[table], old, new)
                is_grown = is_grown and changed is not None
                tables[table] = changed or tables[table]
        ordered = {number: lines[number] for number in sorted(lines)}
        grown = replace(self, tables=tables, lines=ordered)
        return grown if is_grown else grown.summed()

    def summed(self) -> ArchiveIndex:
        """The same shards with their sums taken again."""
        tables = {
            table: total(shard.tables[table] for shard in self.shards if table in shard.tables)
            for table in HISTORY_TABLES
        }
        return replace(self, tables=tables)


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
    head: Json = {
        **extent_json(index, extent),
        "complete": [range_json(run) for run in extent.complete],
        "gaps": [range_json(run) for run in extent.gaps],
        "ids": [
            range_json(run.blocks) | {"id": run.segment_id, "previous_id": run.previous_id}
            for run in index.ids.runs
        ],
        **({"lake": {"format": "delta", "path": LAKE}} if index.has_lake else {}),
        "tables": {table: _sums_json(sums) for table, sums in index.tables.items()},
    }
    lines = f"[\n{LINE.join(index.lines.values())}\n]" if index.lines else "[]"
    return sealed_lines([*map(field_line, head.items()), f'"shards":{lines}'])


def parse_index(data: bytes, place: str) -> ArchiveIndex:
    """Read an index. Raises `IntegrityError` naming the place where it is damaged."""
    text = proven_text(data, place)
    start = text.find(_SHARDS)
    if start < 0 or not text.endswith(_SHARDS_END):
        return parsed(data, place, _parsed)
    try:
        head = json.loads(text[:start] + b"\n}")
        rows = text[start + len(_SHARDS) : -len(_SHARDS_END)].decode().split(LINE)
        lines = dict(map(_numbered, rows))
        tables = {table: _sums_of(head["tables"][table]) for table in HISTORY_TABLES}
        return ArchiveIndex(head["chain_id"], tables, lines, "lake" in head)
    except UNREADABLE as error:
        raise unreadable(place, error) from error


def _parsed(document: Json) -> ArchiveIndex:
    lines = dict(_numbered(dumps(row)) for row in document["shards"])
    return ArchiveIndex(document["chain_id"], lines=lines, has_lake="lake" in document).summed()


def _times_in(line: str) -> tuple[str, str] | None:
    """The times in a shard's line, no more of which is read."""
    start = line.rfind('"first_time":')
    return times_of(json.loads(f"{{{line[start:]}")) if start >= 0 else None


def _spanned(optional_spans: Iterable[tuple[str, str] | None]) -> tuple[str, str] | None:
    """From the first of the first times to the last of the last ones."""
    spans = [times for times in optional_spans if times is not None]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None


def _numbered(line: str) -> tuple[int, str]:
    return int(_line_start(line)[1]) // SHARD_BLOCKS, line


def _line_start(line: str) -> re.Match[str]:
    """The first block of a shard, its hash and that of its list of hashes, from its line."""
    match = _LINE_START.match(line)
    if match is None:
        raise ValueError(f"{line[:40]!r} is no shard")
    return match


def _reaches(summary: Json, blocks: BlockRange) -> bool:
    """Whether a ZIP of a shard holds one of these blocks, from its line alone."""
    own = (sums.get("covered", ()) for sums in summary["tables"].values())
    runs = chain(summary.get("covered", ()), *own)
    return any(range_of(run).overlaps(blocks) for run in runs)


@lru_cache(maxsize=8192)
def _id_runs(text: str) -> tuple[IdRun, ...]:
    """The runs at the start of a text: those of an index that changes are nearly all the same."""
    return tuple(map(id_run_of, _DECODER.raw_decode(text)[0]))


def _days_in(line: str) -> tuple[BlockDay, ...]:
    """The days of a shard, from its line; nothing else of that is read."""
    text = line.rpartition(_DAYS)[2] if _DAYS in line else "[]"
    return tuple(map(day_of, _DECODER.raw_decode(text)[0]))


def _sums_json(sums: TableSums) -> Json:
    return {
        "zips": sums.zips,
        "rows": sums.rows,
        "bytes": sums.bytes,
        "bundles": sums.bundles,
        "bundle_bytes": sums.bundle_bytes,
        "covered": [range_json(run) for run in sums.covered],
        "bundled": [range_json(run) for run in sums.bundled],
    }


def _sums_of(sums: Json) -> TableSums:
    runs = (tuple(map(range_of, sums[name])) for name in _RUNS)
    return TableSums(*(sums[name] for name in _COUNTS), *runs)
