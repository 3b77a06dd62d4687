"""Which segments an export takes and where its CSVs split (spec 2.8.7 and 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transforms.block_range import BlockRange, BlockRanges
from transforms.coverage import difference, union
from transforms.errors import ConfigError, RangeError
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import HISTORY_TABLES, TableSchema

_LISTED = 5  # ranges named in a message before it counts the rest


class InvalidExportError(RangeError):
    """The request itself cannot be right: an unknown table, or a range off the boundaries."""


class UnknownTableError(InvalidExportError, ConfigError):
    """The table is none of those that are exported."""


class NotHeldError(RangeError):
    """The request may be right, but the segments for it are not here, or not all of them."""


@dataclass(frozen=True, slots=True)
class HeldColumns:
    """Held segments of a chain as columns, ascending; `schemas` has None where the table lacks."""

    chain_id: str
    blocks: BlockRanges
    versions: Sequence[int]
    schemas: Sequence[TableSchema | None]

    @classmethod
    def of(cls, held_segments: Iterable[tuple[SegmentName, TableSchema | None]]) -> HeldColumns:
        """The columns of segments of one chain in any order, each with the table's schema in it."""
        segments = sorted(held_segments, key=lambda segment: segment[0].blocks)
        names = [name for name, _ in segments]
        return cls(
            names[0].chain_id if names else "",
            BlockRanges.of([name.blocks for name in names]),
            [name.version for name in names],
            [schema for _, schema in segments],
        )

    def over(self, blocks: BlockRange) -> HeldColumns:
        """The segments that hold any of these blocks."""
        firsts, lasts = self.blocks.firsts, self.blocks.lasts
        # An archive that contradicts itself has some that overlap: their ends need not ascend.
        rows = [
            row
            for row, (first, last) in enumerate(zip(firsts, lasts, strict=True))
            if first <= blocks.last and last >= blocks.first
        ]
        return HeldColumns(
            self.chain_id,
            BlockRanges([firsts[row] for row in rows], [lasts[row] for row in rows]),
            [self.versions[row] for row in rows],
            [self.schemas[row] for row in rows],
        )


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive segments over which the table's columns stay the same: one CSV."""

    schema: TableSchema
    version: int
    """The schema version of the first segment; it names the CSV."""
    segments: BlockRanges

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
    """Raise `UnknownTableError` if `table` is none of the 15 that are exported."""
    if table not in HISTORY_TABLES:
        raise UnknownTableError(
            f"{table!r} is no table of the network's history: choose one of "
            f"{', '.join(HISTORY_TABLES)}"
        )


def plan_export(
    held: HeldColumns, table: str, blocks: BlockRange, place: str = "the warehouse"
) -> ExportPlan:
    """Plan the export of `table` over `blocks` from the segments that a place holds.

    Raises `InvalidExportError` for an unknown table, or for an end that lies inside a segment: the
    message names the nearest boundaries. Raises `NotHeldError` where segments are missing: the
    message names the blocks.
    """
    check_table(table)
    _check_aligned(held.blocks, blocks)
    inside = held.over(blocks)
    _check_held(held.blocks, inside, f"{table} over blocks {blocks}", blocks, place)
    return ExportPlan(held.chain_id, table, blocks, tuple(_spans(inside)))


def _spans(held: HeldColumns) -> Iterator[Span]:
    start = 0
    schemas = held.schemas
    for row in range(1, len(schemas) + 1):
        # Equal columns are equal fingerprints, without hashing 75,000 schemas for every request.
        if row < len(schemas) and _have_equal_columns(schemas[row - 1], schemas[row]):
            continue
        schema = schemas[start]
        assert schema is not None
        yield Span(schema, held.versions[start], held.blocks[start:row])
        start = row


def _have_equal_columns(schema: TableSchema | None, following: TableSchema | None) -> bool:
    return schema is following or (schema and schema.columns) == (following and following.columns)


def _check_aligned(segments: BlockRanges, blocks: BlockRange) -> None:
    """Refuse an end that lies inside a held segment; one in no segment at all is not held."""
    wrong = []
    ends = [*zip(segments.firsts, segments.lasts, strict=True)]
    if any(first < blocks.first <= last for first, last in ends):
        near = _nearest(segments.firsts, blocks.first)
        wrong.append(f"block {blocks.first} is not the first block of a segment; {near}")
    if any(first <= blocks.last < last for first, last in ends):
        near = _nearest(segments.lasts, blocks.last)
        wrong.append(f"block {blocks.last} is not the last block of a segment; {near}")
    if wrong:
        raise InvalidExportError(". ".join(wrong))


def _nearest(boundaries: Sequence[int], block: int) -> str:
    below = [boundary for boundary in boundaries if boundary < block]
    above = [boundary for boundary in boundaries if boundary > block]
    near = [str(boundary) for boundary in (*below[-1:], *above[:1])]
    return f"the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)}"


def _check_held(
    held: BlockRanges, inside: HeldColumns, request: str, blocks: BlockRange, place: str
) -> None:
    """Refuse a range with blocks that no segment holds, or with a segment that lacks the table."""
    segments = inside.blocks
    missing = () if _are_whole(segments, blocks) else difference((blocks,), union(segments))
    if missing:
        raise NotHeldError(
            f"{request}: no segment holds {_listed(missing)}; "
            f"{place} holds {_listed(union(held)) or 'nothing yet'}"
        )
    lacking = (
        [run for run, schema in zip(segments, inside.schemas, strict=True) if schema is None]
        if None in inside.schemas
        else []
    )
    if lacking:
        raise NotHeldError(f"{request}: segment {_listed(lacking)} has no such table")


def _are_whole(segments: BlockRanges, blocks: BlockRange) -> bool:
    """Whether segments are exactly a range: what is missing takes an object of each."""
    return (
        bool(segments)
        and segments.are_joined
        and ((segments.firsts[0], segments.lasts[-1]) == (blocks.first, blocks.last))
    )


def _listed(ranges: Sequence[BlockRange]) -> str:
    shown = ", ".join(map(str, ranges[:_LISTED]))
    return shown if len(ranges) <= _LISTED else f"{shown} and {len(ranges) - _LISTED} more"
