"""One table over a range, from an archive's index alone: its segments, spans, and the ZIPs to take.

Heights and times snap outwards to whole segments: those that have any block of the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.exports.plan import (
    ExportPlan,
    HeldColumns,
    NotHeldError,
    check_table,
    plan_export,
)
from exporters.zip_names import NameStyle, zip_name
from transforms.block_range import BlockRange
from transforms.bounds import Bound, rfc3339
from transforms.errors import RangeError
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema


@dataclass(frozen=True, slots=True)
class RangePlan:
    """What is asked for, and the published ZIPs of its segments, ascending."""

    export: ExportPlan
    entries: tuple[Entry, ...]

    @property
    def style(self) -> NameStyle:
        """How the archive writes numbers in names."""
        chain, first = self.export.chain_id, self.entries[0]
        name = zip_name(chain, first.table, first.blocks)
        return NameStyle.SPEC if first.path.endswith(f"/{name}") else NameStyle.REFERENCE


def plan_range(archive: Archive, table: str, blocks: BlockRange) -> RangePlan:
    """Plan a table over blocks.

    Raises `RangeError` where these are not held, or not aligned: it names what would be.
    """
    check_table(table)
    entries = tuple(archive.read_twice(lambda index: archive.entries(table, blocks, index)))
    # Where the range is not aligned, those that reach over its ends say what would be right.
    held = HeldColumns.of(_segments(archive.chain_id, entries))
    export = plan_export(held, table, blocks, "the archive")
    return RangePlan(export, entries)


def _held(index: ArchiveIndex, table: str) -> BlockRange:
    """From the first to the last block that the archive has of a table."""
    covered = index.tables[table].covered
    if not covered:
        raise NotHeldError(f"the archive of {index.chain_id} has no {table} yet")
    return BlockRange(covered[0].first, covered[-1].last)


def _segments(chain_id: str, entries: Iterable[Entry]) -> Iterator[tuple[SegmentName, TableSchema]]:
    """The segments of ZIPs, with the columns that the table has there."""
    return (
        (SegmentName(chain_id, entry.segment.version, entry.blocks), entry.csv.schema)
        for entry in entries
    )


_TIMES = "blocks"  # the table that says when its segments began and ended


def choose_blocks(
    archive: Archive, table: str, start: Bound | None, end: Bound | None
) -> BlockRange:
    """The blocks of the segments of a table that have any block between two bounds, both included.

    Raises `RangeError` where there is none, or times are asked for and the index has none.
    """
    check_table(table)
    return archive.read_twice(lambda index: _choose_blocks(archive, index, table, (start, end)))


def _choose_blocks(
    archive: Archive, index: ArchiveIndex, table: str, ends: tuple[Bound | None, Bound | None]
) -> BlockRange:
    held, (start, end) = _held(index, table), ends
    first, last = held.first, held.last
    if start is not None:
        first = max(first, _block(archive, index, start, is_end=False))
    if end is not None:
        last = min(last, _block(archive, index, end, is_end=True))
    entries = archive.entries(table, BlockRange(first, last), index) if first <= last else ()
    inside = [e.blocks for e in entries if e.blocks.first <= last and first <= e.blocks.last]
    if not inside:
        times = f", {index.times[0]} to {index.times[1]}" if index.times else ""
        raise NotHeldError(
            f"{table} {_asked(start, end)}: there is nothing; the archive of {archive.chain_id} "
            f"holds blocks {held.first} to {held.last}{times}"
        )
    return BlockRange(min(span.first for span in inside), max(span.last for span in inside))


def _block(archive: Archive, index: ArchiveIndex, bound: Bound, *, is_end: bool) -> int:
    """The block of a bound; of a time, an end of the outermost segment that reaches it."""
    if bound.micros is None:
        return bound.block or 0
    if index.times is None:
        raise RangeError(
            f"{bound.text!r}: the index of {archive.place('')} says no times: give blocks"
        )
    time = rfc3339(bound.micros)

    def reaches(times: tuple[str, str] | None) -> bool:
        return times is not None and (times[0] <= time if is_end else times[1] >= time)

    shards = [*index.shards.values()][:: -1 if is_end else 1]
    ranges = [entry.blocks for entry in _reaching(archive, index, shards, reaches)]
    if is_end:
        return max((blocks.last for blocks in ranges), default=-1)
    return min((blocks.first for blocks in ranges), default=2**62)


def _reaching(
    archive: Archive,
    index: ArchiveIndex,
    shards: Iterable[ShardSummary],
    reaches: Callable[[tuple[str, str] | None], bool],
) -> Iterator[Entry]:
    """The ZIPs of blocks of the first shard that has some that reach a time."""
    for shard in shards:
        if reaches(shard.times):
            entries = archive.shard(shard.number, index).entries
            matches = [e for e in entries if e.table == _TIMES and reaches(e.times)]
            if matches:
                yield from matches
                return


def _asked(start: Bound | None, end: Bound | None) -> str:
    bounds = (("from", start), ("to", end))
    return " ".join(f"{word} {bound.text}" for word, bound in bounds if bound)
