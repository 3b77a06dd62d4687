"""Wider ZIPs out of narrower ones: parts joined as they lie, without inflating (spec 2.8.7).

Only directories are read. Later parts of a CSV give up their header run, CRC-32s combine, lengths
add up. A spliced ZIP carries the same private fields, so it serves as a bigger part in turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.exports.plan import ExportPlan
from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.container import Member, directory, local_header
from exporters.zips.layout import Layout, LayoutMember, Slice
from exporters.zips.parts import PartColumns
from exporters.zips.runs import STREAM_END
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.files import new_file


@dataclass(frozen=True, slots=True)
class CsvParts:
    """One CSV to be: its name, the version and blocks that name stands for, its parts in order."""

    name: str
    version: int
    blocks: BlockRange
    parts: PartColumns


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


def write_hashed(
    layout: Layout,
    path: Path,
    progress: Callable[[int], object] = lambda _bytes: None,
    *,
    scratch: Path | None = None,
) -> str:
    """Write the ZIP to `path` and its hash to `<path>.sha256`; returns the hash, in hex.

    It is the hash of the proven bytes: a disk that changes them does not change the hash. Raises
    what `Layout.write` raises.
    """
    beside = path.with_name(f"{path.name}.sha256")
    beside.unlink(missing_ok=True)  # until the ZIP is there it is that of an earlier one
    digest = hashlib.sha256()

    def hashed(block: bytes) -> None:
        digest.update(block)
        progress(len(block))

    layout.write(path, scratch, progress=hashed)
    sha256 = digest.hexdigest()
    with new_file(beside, scratch) as file:
        file.write(f"{sha256}  {path.name}\n".encode())
    return sha256
