"""One table over a range, from an archive's index alone: segments, spans, and the ZIPs to take."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex
from exporters.archive.shards import shard_path, table_entries
from exporters.exports.cover import cheapest_cover
from exporters.exports.plan import (
    ExportPlan,
    HeldColumns,
    NotHeldError,
    Span,
    check_table,
    export_range,
    plan_export,
)
from exporters.zip_names import NameStyle, zip_name
from transforms.block_range import BlockRange, BlockRanges, contiguous_runs
from transforms.errors import IntegrityError
from transforms.segments.segment_name import SegmentName
from transforms.stores.store import asked_together
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
    """What is asked for, and the published ZIPs of the table that hold any of it."""

    export: ExportPlan
    entries: tuple[Entry, ...]

    @property
    def style(self) -> NameStyle:
        """How the archive writes numbers in names."""
        chain, first = self.export.chain_id, self.entries[0]
        name = zip_name(chain, first.table, first.blocks)
        return NameStyle.SPEC if first.path.endswith(f"/{name}") else NameStyle.REFERENCE


def plan_range(archive: Archive, table: str, first: int | None, last: int | None) -> RangePlan:
    """Plan a table over blocks `first` to `last`; without them, over all that there is of it.

    Raises `RangeError` where that is not held, or not aligned: it names what would be.
    """
    check_table(table)
    index = archive.index()
    blocks = _blocks(index, table, first, last)
    entries = tuple(overlapping(archive, index, table, blocks))
    inside = [e for e in entries if _is_inside(e.blocks, blocks)]
    # Where the range is not aligned, those that reach over its ends say what would be right.
    segments = _segments(archive.chain_id, entries)
    return RangePlan(plan_export(HeldColumns.of(segments), table, blocks), tuple(inside))


def choose(
    plan: RangePlan, is_there: Callable[[Entry], bool], without: Container[str] = ()
) -> list[list[MemberChoice]] | None:
    """The CSVs that join into each span at the least cost; None where nothing does.

    What is there costs nothing; ZIPs whose path is in `without` are not taken.
    """
    usable = [entry for entry in plan.entries if entry.path not in without]
    costs = {e.path: 1 if is_there(e) else e.bytes + _OPENING_BYTES for e in usable}
    choices: list[list[MemberChoice]] = []
    for span in plan.export.spans:
        fitting = [*_fitting(span, usable)]
        candidates = BlockRanges.of([csv.entry.members[csv.number].blocks for csv in fitting])
        chosen = cheapest_cover(span.blocks, candidates, [costs[csv.entry.path] for csv in fitting])
        if chosen is None:
            return None
        choices.append([fitting[number] for number in chosen])
    return choices


def _fitting(span: Span, entries: Iterable[Entry]) -> Iterator[MemberChoice]:
    for entry in entries:
        for number, csv in enumerate(entry.members):
            fits = _is_inside(csv.blocks, span.blocks)
            if fits and csv.schema.columns == span.schema.columns:
                yield MemberChoice(entry, number)


def _is_inside(inner: BlockRange, outer: BlockRange) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def _blocks(index: ArchiveIndex, table: str, first: int | None, last: int | None) -> BlockRange:
    runs = list(contiguous_runs(index.tables[table].covered))
    if not runs:
        raise NotHeldError(f"the archive of {index.chain_id} has no {table} yet")
    blocks = export_range(
        runs[0].first if first is None else first, runs[-1].last if last is None else last
    )
    if blocks.first < runs[0].first or blocks.last > runs[-1].last:
        raise NotHeldError(
            f"{table} over blocks {blocks}: the archive of {index.chain_id} holds blocks "
            f"{runs[0].first} to {runs[-1].last}"
        )
    return blocks


def overlapping(
    archive: Archive, index: ArchiveIndex, table: str, blocks: BlockRange
) -> Iterator[Entry]:
    """The published ZIPs of a table that hold any of these blocks; shards are read together."""
    read_shard = partial(table_shard, archive, table)
    for entries in asked_together(archive.store, read_shard, index.reaching(blocks)):
        yield from (entry for entry in entries if entry.blocks.overlaps(blocks))


def table_shard(archive: Archive, table: str, number: int) -> Sequence[Entry]:
    """The published ZIPs of a table in a shard. Raises `IntegrityError` where it is gone."""
    place = archive.place(shard_path(number))
    data = archive.read(shard_path(number))
    if data is None:
        raise IntegrityError(f"{place} is not there, but the index names it: tell its keeper")
    return table_entries(data, table, place, archive.chain_id, number)


def _segments(chain_id: str, entries: Iterable[Entry]) -> Iterator[tuple[SegmentName, TableSchema]]:
    """The segments that ZIPs were made of, each once, with the columns that the table has there."""
    ranges: set[BlockRange] = set()
    for entry in entries:
        for segment in entry.segments:
            if segment.blocks not in ranges:
                ranges.add(segment.blocks)
                (schema,) = (
                    csv.schema for csv in entry.members if _is_inside(segment.blocks, csv.blocks)
                )
                yield SegmentName(chain_id, segment.version, segment.blocks), schema
