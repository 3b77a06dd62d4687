"""Numbers, sizes and coverage as people read them."""

from __future__ import annotations

from collections.abc import Iterable

from exporters.archive.coverage import Coverage, difference, union
from exporters.archive.markup import Html, tag
from exporters.archive.sums import TableSums
from transforms.blocks import BlockRange

_BAR = 1000
_THINNEST_GAP = 3  # of the bar's thousand: one missing block in a million must be seen


def coverage_bar(covered: Coverage, held: BlockRange) -> Html:
    """The blocks of `held` from left to right, what is missing marked."""
    length = held.last - held.first + 1
    gaps = difference((held,), covered)
    marks = union(
        BlockRange(start, max(start + _THINNEST_GAP, (gap.last - held.first + 1) * _BAR // length))
        for gap in gaps
        for start in ((gap.first - held.first) * _BAR // length,)
    )
    drawn = [_rectangle("held", 0, _BAR), *(_rectangle("gap", m.first, m.last) for m in marks)]
    label = f"{len(gaps)} gaps" if gaps else "no gaps"
    view = f"0 0 {_BAR} 10"
    return tag(
        "svg", *drawn, viewBox=view, preserveAspectRatio="none", role="img", aria_label=label
    )


def _rectangle(kind: str, start: int, stop: int) -> Html:
    return tag("rect", class_=kind, x=str(start), width=str(stop - start), height="10")


def sizes_text(tables: Iterable[TableSums]) -> tuple[str, str, str]:
    """How many ZIPs, rows (those of windows not counted again) and bytes."""
    held = tuple(tables)
    zips = sum(sums.zips + sums.windows for sums in held)
    rows = sum(sums.rows for sums in held)
    return f"{zips:,}", f"{rows:,}", size_text(sum(sums.bytes + sums.window_bytes for sums in held))


def blocks_text(blocks: BlockRange | None) -> str:
    """A range of blocks."""
    return "none" if blocks is None else f"{blocks.first:,} to {blocks.last:,}"


def size_text(count: int) -> str:
    """A number of bytes in decimal units."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
