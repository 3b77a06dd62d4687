"""From heights and times to whole segments of an archive, by its index alone.

A range snaps outwards to segments: those that have any block of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.exports.plan import NotHeldError, check_table
from exporters.fetching.range_plan import overlapping, table_shard
from transforms.block_range import BlockRange, contiguous_runs
from transforms.bounds import Bound, rfc3339
from transforms.errors import RangeError

_TIMES = "blocks"  # the table that says when its segments began and ended


def choose_blocks(
    archive: Archive, table: str, start: Bound | None, end: Bound | None
) -> BlockRange:
    """The blocks of the segments of a table that have any block between two bounds, both included.

    Raises `RangeError` where there is none, or times are asked for and the index has none.
    """
    check_table(table)
    index = archive.index()
    runs = list(contiguous_runs(index.tables[table].covered))
    if not runs:
        raise NotHeldError(f"the archive of {archive.chain_id} has no {table} yet")
    first, last = runs[0].first, runs[-1].last
    if start is not None:
        first = max(first, _block(archive, index, start, is_end=False))
    if end is not None:
        last = min(last, _block(archive, index, end, is_end=True))
    entries = overlapping(archive, index, table, BlockRange(first, last)) if first <= last else ()
    segments = [s.blocks for entry in entries for s in entry.segments]
    inside = [span for span in segments if span.first <= last and first <= span.last]
    if not inside:
        raise NotHeldError(
            f"{table} {_asked(start, end)}: there is nothing; the archive of {archive.chain_id} "
            f"holds blocks {runs[0].first} to {runs[-1].last}{_between(index)}"
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

    shards = reversed(index.shards) if is_end else iter(index.shards)
    ranges = [entry.blocks for entry in _reaching(archive, shards, reaches)]
    if is_end:
        return max((blocks.last for blocks in ranges), default=-1)
    return min((blocks.first for blocks in ranges), default=2**62)


def _reaching(
    archive: Archive,
    shards: Iterable[ShardSummary],
    reaches: Callable[[tuple[str, str] | None], bool],
) -> Iterator[Entry]:
    """The ZIPs of blocks of the first shard that has some that reach a time."""
    for shard in shards:
        if reaches(shard.times):
            entries = table_shard(archive, _TIMES, shard.number)
            matches = [entry for entry in entries if not entry.is_bundle and reaches(entry.times)]
            if matches:
                yield from matches
                return


def _asked(start: Bound | None, end: Bound | None) -> str:
    bounds = (("from", start), ("to", end))
    return " ".join(f"{word} {bound.text}" for word, bound in bounds if bound)


def _between(index: ArchiveIndex) -> str:
    return f", {index.times[0]} to {index.times[1]}" if index.times else ""
