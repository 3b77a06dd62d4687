"""Sizes, ranges of blocks and bars of coverage as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from transforms.block_range import BlockRange
from transforms.coverage import Coverage, union

Mark = tuple[str, int, int]
"""A piece of a bar: its kind, where it starts and how wide it is, in thousandths of the bar."""

_BAR = 1000
_THINNEST = {"gap": 3}  # one missing block in a million must be seen
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def size_text(size: int) -> str:
    """A number of bytes in decimal units: `1.5 MB`."""
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{size} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def blocks_text(blocks: BlockRange | None) -> str:
    """A range of blocks."""
    return "none" if blocks is None else f"{blocks.first:,} to {blocks.last:,}"


def times_text(times: tuple[str, str] | None) -> str:
    """A first and a last time in UTC, to the second: `2023-06-01 12:00:01`; empty without any."""
    return " to ".join(time[:19].replace("T", " ") or "?" for time in times or ())


def coverage_bar(axis: BlockRange, layers: Mapping[str, Coverage]) -> list[Mark]:
    """What to draw along `axis`, the last layer on top.

    Runs that touch are drawn as one, so a bar stays small however many there are.
    """
    return [
        (kind, drawn.first, drawn.last - drawn.first + 1)
        for kind, runs in layers.items()
        for drawn in union(_thousandths(run, axis, _THINNEST.get(kind, 1)) for run in runs)
    ]


def _thousandths(run: BlockRange, axis: BlockRange, thinnest: int) -> BlockRange:
    length = axis.last - axis.first + 1
    start = (run.first - axis.first) * _BAR // length
    stop = (run.last - axis.first + 1) * _BAR // length
    return BlockRange(start, max(start + thinnest, stop) - 1)
