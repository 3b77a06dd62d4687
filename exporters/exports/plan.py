"""Which segments an export takes and where its CSVs split (spec 2.8.7 and 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import RangeError
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import HISTORY_TABLES, TableSchema

_LISTED = 5  # ranges named in a message before it counts the rest


class InvalidExportError(RangeError):
    """The request itself cannot be right: an unknown table, or a range off the boundaries."""


class NotHeldError(RangeError):
    """The request may be right, but the segments for it are not here, or not all of them."""


@dataclass(frozen=True, slots=True)
class HeldSegment:
    """A segment that can be exported: its name and the schema of each table in it."""

    name: SegmentName
    schemas: Mapping[str, TableSchema]

    @property
    def blocks(self) -> BlockRange:
        """The segment's blocks."""
        return self.name.blocks


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive segments over which the table's columns stay the same: one CSV."""

    schema: TableSchema
    version: int
    """The schema version of the first segment; it names the CSV."""
    segments: tuple[BlockRange, ...]

    @property
    def blocks(self) -> BlockRange:
        """From the first segment's first block to the last segment's last."""
        return BlockRange(self.segments[0].first, self.segments[-1].last)


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """One table over one range: what the ZIP is about and the CSVs it holds, ascending."""

    chain_id: str
    table: str
    blocks: BlockRange
    spans: tuple[Span, ...]


def export_range(first: int, last: int) -> BlockRange:
    """The range a request asks for. Raises `InvalidExportError` where it runs backwards."""
    if first < 0 or last < 0:
        raise InvalidExportError(f"block {min(first, last)} is negative: heights start at 0")
    if first > last:
        raise InvalidExportError(f"the range starts at block {first}, after its end, block {last}")
    return BlockRange(first, last)


def check_table(table: str) -> None:
    """Raise `InvalidExportError` where `table` is none of the 15 that are exported."""
    if table not in HISTORY_TABLES:
        raise InvalidExportError(
            f"{table!r} is no table of the network's history: choose one of "
            f"{', '.join(HISTORY_TABLES)}"
        )


def plan_export(held_segments: Iterable[HeldSegment], table: str, blocks: BlockRange) -> ExportPlan:
    """Plan the export of `table` over `blocks` from the segments held (of one chain, any order).

    Raises `InvalidExportError` for an unknown table, or for an end that lies inside a segment: the
    message names the nearest boundaries. Raises `NotHeldError` where segments are missing: the
    message names the blocks.
    """
    check_table(table)
    segments = sorted(held_segments, key=lambda segment: segment.blocks)
    _check_aligned([segment.blocks for segment in segments], blocks)
    _check_held(segments, table, blocks)
    chosen = [segment for segment in segments if segment.blocks.overlaps(blocks)]
    return ExportPlan(chosen[0].name.chain_id, table, blocks, tuple(_spans(chosen, table)))


def _spans(segments: Sequence[HeldSegment], table: str) -> Iterator[Span]:
    run: list[HeldSegment] = []
    for segment in segments:
        # Equal columns are equal fingerprints, without hashing 75,000 schemas for every request.
        if run and run[-1].schemas[table].columns != segment.schemas[table].columns:
            yield _span(run, table)
            run = []
        run.append(segment)
    yield _span(run, table)


def _span(run: Sequence[HeldSegment], table: str) -> Span:
    blocks = tuple(segment.blocks for segment in run)
    return Span(run[0].schemas[table], run[0].name.version, blocks)


def _check_aligned(segments: Sequence[BlockRange], blocks: BlockRange) -> None:
    """Refuse an end that lies inside a held segment; one in no segment at all is not held."""
    wrong = []
    if any(segment.first < blocks.first <= segment.last for segment in segments):
        near = _nearest([segment.first for segment in segments], blocks.first)
        wrong.append(f"block {blocks.first} is not the first block of a segment; {near}")
    if any(segment.first <= blocks.last < segment.last for segment in segments):
        near = _nearest([segment.last for segment in segments], blocks.last)
        wrong.append(f"block {blocks.last} is not the last block of a segment; {near}")
    if wrong:
        raise InvalidExportError(". ".join(wrong))


def _nearest(boundaries: Sequence[int], block: int) -> str:
    below = [boundary for boundary in boundaries if boundary < block]
    above = [boundary for boundary in boundaries if boundary > block]
    near = [str(boundary) for boundary in (*below[-1:], *above[:1])]
    return f"the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)}"


def _check_held(segments: Sequence[HeldSegment], table: str, blocks: BlockRange) -> None:
    """Refuse a range with blocks that no segment holds, or with a segment that lacks the table."""
    inside = [segment for segment in segments if segment.blocks.overlaps(blocks)]
    missing = list(missing_blocks([segment.blocks for segment in inside], blocks))
    if missing:
        runs = list(contiguous_runs(segment.blocks for segment in segments))
        raise NotHeldError(
            f"{table} over blocks {blocks}: no segment holds {_listed(missing)}; "
            f"the archive holds {_listed(runs) or 'nothing yet'}"
        )
    lacking = [segment.blocks for segment in inside if table not in segment.schemas]
    if lacking:
        raise NotHeldError(f"{table} is not among the tables of segment {_listed(lacking)}")


def missing_blocks(present: Iterable[BlockRange], blocks: BlockRange) -> Iterator[BlockRange]:
    """The runs of `blocks` that lie in none of the ranges present, which ascend inside it."""
    following = blocks.first
    for run in present:
        if following < run.first:
            yield BlockRange(following, run.first - 1)
        following = run.last + 1
    if following <= blocks.last:
        yield BlockRange(following, blocks.last)


def _listed(ranges: Sequence[BlockRange]) -> str:
    shown = ", ".join(map(str, ranges[:_LISTED]))
    return shown if len(ranges) <= _LISTED else f"{shown} and {len(ranges) - _LISTED} more"
