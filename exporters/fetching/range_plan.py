"""One table over a range, from an archive's index alone: its segments, spans, and the ZIPs to take.

Heights and times snap outwards to whole segments: those that have any block of the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.exports.plan import (
    ExportPlan,
    HeldColumns,
    NotHeldError,
    Span,
    cheapest_cover,
    check_table,
    plan_export,
)
from exporters.zip_names import NameStyle, zip_name
from transforms.block_range import BlockRange, BlockRanges
from transforms.bounds import Bound, rfc3339
from transforms.errors import IntegrityError, RangeError
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema

# Asking for a ZIP takes about as long as so many bytes of it.
_OPENING_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class MemberChoice:
    """One CSV of a published ZIP that goes into the range, by its number in the ZIP."""

    entry: Entry
    number: int


@dataclass(frozen=True, slots=True)
class RangePlan:
    """What is asked for, and the CSVs of published ZIPs that join into each span of it."""

    export: ExportPlan
    choices: Sequence[Sequence[MemberChoice]]

    @property
    def entries(self) -> list[Entry]:
        """The ZIPs that are taken, each once."""
        choices = (choice for span in self.choices for choice in span)
        return [*{choice.entry.path: choice.entry for choice in choices}.values()]

    @property
    def style(self) -> NameStyle:
        """How the archive writes numbers in names."""
        chain, first = self.export.chain_id, self.entries[0]
        name = zip_name(chain, first.table, first.blocks)
        return NameStyle.SPEC if first.path.endswith(f"/{name}") else NameStyle.REFERENCE


def plan_range(archive: Archive, table: str, blocks: BlockRange) -> RangePlan:
    """Plan a table over blocks, with the ZIPs of the fewest bytes.

    Raises `RangeError` where these are not held, or not aligned: it names what would be.
    """
    check_table(table)
    entries = tuple(archive.entries(table, blocks))
    # Where the range is not aligned, those that reach over its ends say what would be right.
    export = plan_export(HeldColumns.of(_segments(archive.chain_id, entries)), table, blocks)
    inside = [entry for entry in entries if blocks.holds(entry.blocks)]
    choices = [_cheapest(span, inside) for span in export.spans]
    if not all(choices):
        raise IntegrityError(
            f"no ZIPs of {table} in {archive.place('')} join into blocks {blocks}: its keeper "
            "should run strata verify"
        )
    return RangePlan(export, choices)


def _cheapest(span: Span, entries: Iterable[Entry]) -> list[MemberChoice]:
    """The CSVs that join into a span at the least cost; none where nothing does."""
    fitting = [
        MemberChoice(entry, number)
        for entry in entries
        for number, csv in enumerate(entry.members)
        if span.blocks.holds(csv.blocks) and csv.schema.columns == span.schema.columns
    ]
    candidates = BlockRanges.of([csv.entry.members[csv.number].blocks for csv in fitting])
    costs = [csv.entry.bytes + _OPENING_BYTES for csv in fitting]
    return [fitting[at] for at in cheapest_cover(span.blocks, candidates, costs) or ()]


def _held(index: ArchiveIndex, table: str) -> BlockRange:
    """From the first to the last block that the archive has of a table."""
    covered = index.tables[table].covered
    if not covered:
        raise NotHeldError(f"the archive of {index.chain_id} has no {table} yet")
    return BlockRange(covered[0].first, covered[-1].last)


def _segments(chain_id: str, entries: Iterable[Entry]) -> Iterator[tuple[SegmentName, TableSchema]]:
    """The segments that ZIPs were made of, each once, with the columns that the table has there."""
    ranges: set[BlockRange] = set()
    for entry in entries:
        for segment in entry.segments:
            if segment.blocks not in ranges:
                ranges.add(segment.blocks)
                (schema,) = (
                    csv.schema for csv in entry.members if csv.blocks.holds(segment.blocks)
                )
                yield SegmentName(chain_id, segment.version, segment.blocks), schema


_TIMES = "blocks"  # the table that says when its segments began and ended


def choose_blocks(
    archive: Archive, table: str, start: Bound | None, end: Bound | None
) -> BlockRange:
    """The blocks of the segments of a table that have any block between two bounds, both included.

    Raises `RangeError` where there is none, or times are asked for and the index has none.
    """
    check_table(table)
    index = archive.index()
    held = _held(index, table)
    first, last = held.first, held.last
    if start is not None:
        first = max(first, _block(archive, index, start, is_end=False))
    if end is not None:
        last = min(last, _block(archive, index, end, is_end=True))
    entries = archive.entries(table, BlockRange(first, last), index) if first <= last else ()
    segments = [s.blocks for entry in entries for s in entry.segments]
    inside = [span for span in segments if span.first <= last and first <= span.last]
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
            entries = archive.table_entries(_TIMES, shard.number)
            matches = [entry for entry in entries if not entry.is_bundle and reaches(entry.times)]
            if matches:
                yield from matches
                return


def _asked(start: Bound | None, end: Bound | None) -> str:
    bounds = (("from", start), ("to", end))
    return " ".join(f"{word} {bound.text}" for word, bound in bounds if bound)
