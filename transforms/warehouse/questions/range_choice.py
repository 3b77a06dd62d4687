"""From heights and times to whole segments: a range snaps outwards to the loaded segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter

from transforms.block_range import BlockRange
from transforms.bounds import Bound, lower_bound, rfc3339, upper_bound
from transforms.errors import RangeError
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.holdings import Holdings

_FAR = 2**62
_FIRST, _LAST = attrgetter("first"), attrgetter("last")


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """From the first block of the first segment that a range touches to the last of the last.

    `times` are those of the first and the last block, None where a segment has no table of blocks.
    """

    blocks: BlockRange
    count: int
    times: tuple[int | None, int | None]

    def __str__(self) -> str:
        plural = "" if self.count == 1 else "s"
        times = (rfc3339(time) if time is not None else "?" for time in self.times)
        return f"blocks {self.blocks} ({self.count:,} segment{plural}), {' to '.join(times)}"

    def facts(self) -> dict[str, object]:
        """The choice for a JSON document."""
        first, last = (rfc3339(time) if time is not None else None for time in self.times)
        return {
            "from_block": self.blocks.first,
            "to_block": self.blocks.last,
            "first_time": first,
            "last_time": last,
            "segment_count": self.count,
        }


def choose_between(holdings: Holdings, start: str | None, end: str | None) -> SegmentChoice:
    """The same as `choose_range` of what people write. Raises `RangeError` also where it is odd."""
    lower = lower_bound(start) if start else None
    return choose_range(holdings, lower, upper_bound(end) if end else None)


def choose_range(holdings: Holdings, start: Bound | None, end: Bound | None) -> SegmentChoice:
    """The loaded segments with any block between two bounds, both included; None: no bound.

    Of a long history only the volumes at the two ends are opened. Raises `RangeError` where no
    segment lies between them.
    """
    if start and end and _is_reversed(start, end):
        raise RangeError(f"{end.text} is before {start.text}: give the first one first")
    segments = holdings.catalog.blocks
    first = _first_place(holdings, start) if start else 0
    last = _last_place(holdings, end) if end else len(segments) - 1
    if not 0 <= first <= last < len(segments):
        raise RangeError(_nothing(holdings, start, end))
    ends = segments[first], segments[last]
    (first_time, _), (_, last_time) = map(holdings.times, ends)
    blocks = BlockRange(ends[0].first, ends[1].last)
    return SegmentChoice(blocks, last - first + 1, (first_time, last_time))


def _first_place(holdings: Holdings, start: Bound) -> int:
    """The place of the first segment that ends at a bound or later."""
    segments, catalog = holdings.catalog.blocks, holdings.catalog
    if start.micros is None:
        return bisect_left(segments, start.block, key=_LAST)
    for volume in filter(Extent(times=(start.micros, _FAR)).reaches, catalog.history()):
        for block, _, last in holdings.segment_times(volume):
            if last >= start.micros:
                return bisect_left(segments, block, key=_FIRST)
    return len(segments)


def _last_place(holdings: Holdings, end: Bound) -> int:
    """The place of the last segment that begins at a bound or before; -1 without one."""
    segments, catalog = holdings.catalog.blocks, holdings.catalog
    if end.micros is None:
        return bisect_right(segments, end.block, key=_FIRST) - 1
    for volume in filter(Extent(times=(-_FAR, end.micros)).reaches, catalog.history()[::-1]):
        for block, first, _ in reversed(holdings.segment_times(volume)):
            if first <= end.micros:
                return bisect_left(segments, block, key=_FIRST)
    return -1


def _is_reversed(start: Bound, end: Bound) -> bool:
    pairs = ((start.block, end.block), (start.micros, end.micros))
    return any(a is not None and b is not None and b < a for a, b in pairs)


def _nothing(holdings: Holdings, start: Bound | None, end: Bound | None) -> str:
    words = (("from", start), ("to", end))
    span = " ".join(f"{word} {bound.text}" for word, bound in words if bound)
    if not holdings.catalog.blocks:
        return f"no segment lies {span}: nothing is loaded"
    return f"no segment lies {span}: the warehouse holds {choose_range(holdings, None, None)}"
