"""Wider ZIPs out of narrower ones: parts joined as they lie, without inflating (spec 2.8.7).

Only directories are read. Later parts of a CSV give up their header run, CRC-32s combine, lengths
add up. A spliced ZIP carries the same private fields, so it serves as a bigger part in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isal import isal_zlib

from exporters.exports.cover import cheapest_cover
from exporters.exports.plan import ExportPlan, NotHeldError, missing_blocks
from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.container import Member, directory, local_header
from exporters.zips.layout import Layout, LayoutMember, Slice
from exporters.zips.parts import PartColumns, PartRef
from exporters.zips.runs import STREAM_END
from transforms.block_range import BlockRange, BlockRanges
from transforms.errors import IntegrityError


@dataclass(frozen=True, slots=True)
class CsvParts:
    """One CSV to be: its name, the version and blocks that name stands for, its parts in order."""

    name: str
    version: int
    blocks: BlockRange
    parts: PartColumns


def cover(blocks: BlockRange, available: Iterable[PartRef]) -> tuple[PartRef, ...]:
    """The fewest of the parts available that join into exactly `blocks`, ascending.

    Raises `NotHeldError` naming the blocks where no choice of parts joins.
    """
    inside = [
        p for p in available if blocks.first <= p.blocks.first and p.blocks.last <= blocks.last
    ]
    candidates = [part.blocks for part in inside]
    choice = cheapest_cover(blocks, BlockRanges.of(candidates), [1] * len(inside))
    if choice is None:
        raise NotHeldError(_no_cover(blocks, candidates))
    return tuple(inside[number] for number in choice)


def layout_export(
    plan: ExportPlan, available: Iterable[PartRef], style: NameStyle = NameStyle.SPEC
) -> Layout:
    """Lay out the ZIP of a plan from parts of its table, narrow or wide.

    Raises `NotHeldError` where parts are missing, `IntegrityError` where they contradict the plan.
    """
    parts = list(available)
    parts_by_span = []
    for span in plan.spans:
        chosen = cover(span.blocks, parts)
        if chosen[0].member.header.crc32 != isal_zlib.crc32(span.schema.header):
            raise IntegrityError(
                f"{chosen[0].source.name} does not have the columns that segment "
                f"{span.segments[0]} has now: make it again"
            )
        parts_by_span.append(PartColumns.of(chosen))
    return layout_spans(plan, parts_by_span, style)


def layout_spans(
    plan: ExportPlan, parts: Iterable[PartColumns], style: NameStyle = NameStyle.SPEC
) -> Layout:
    """Lay out the ZIP of a plan from the parts of each of its spans, which join into it."""
    csvs = [
        CsvParts(
            csv_name(plan.chain_id, plan.table, span.version, span.blocks, style),
            span.version,
            span.blocks,
            chosen,
        )
        for span, chosen in zip(plan.spans, parts, strict=True)
    ]
    return layout_zip(zip_name(plan.chain_id, plan.table, plan.blocks, style), csvs)


def layout_zip(name: str, spans: Sequence[CsvParts]) -> Layout:
    """Lay out a ZIP called `name` with one CSV for each span; no part's data is read.

    Raises `IntegrityError` where parts of one CSV differ in their header line.
    """
    chunks: list[bytes | Slice] = []
    members: list[Member] = []
    for span in spans:
        _check_headers(span)
        start = members[-1].end if members else 0
        member = Member(span.name, start, span.parts.header, span.parts.body, sum(span.parts.rows))
        chunks += (local_header(member), *span.parts.slices(), STREAM_END)
        members.append(member)
    chunks.append(directory(members))
    described = (_described(span, member) for span, member in zip(spans, members, strict=True))
    return Layout(name, tuple(described), tuple(chunks))


def _described(span: CsvParts, member: Member) -> LayoutMember:
    whole = member.whole
    sizes = (member.rows, whole.plain, whole.deflated)
    return LayoutMember(member.name, span.version, span.blocks, *sizes, whole.crc32)


def _check_headers(span: CsvParts) -> None:
    parts = span.parts
    headers = [*zip(parts.header_plain, parts.header_crcs, strict=True)]
    if headers.count(headers[0]) == len(headers):
        return
    other = next(row for row, header in enumerate(headers) if header != headers[0])
    raise IntegrityError(
        f"{span.name} cannot be spliced: {parts.sources[other].name} has other columns than "
        f"{parts.sources[0].name}"
    )


def _no_cover(blocks: BlockRange, present: list[BlockRange]) -> str:
    missing = ", ".join(map(str, missing_blocks(sorted(present), blocks)))
    what = f"no part holds {missing}" if missing else "the parts there overlap but do not join"
    return f"blocks {blocks} cannot be put together: {what}"
