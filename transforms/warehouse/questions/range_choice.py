"""From heights and times to whole segments: a range snaps outwards to the loaded segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from transforms.block_range import BlockRange
from transforms.bounds import Bound, rfc3339
from transforms.duck import file_connection
from transforms.errors import RangeError
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.shapes import Extent, Volume

_FAR = 2**63


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """From the first block of the first segment that a range touches to the last of the last."""

    blocks: BlockRange
    count: int

    def __str__(self) -> str:
        return f"blocks {self.blocks} ({self.count:,} segment{'' if self.count == 1 else 's'})"

    def facts(self) -> dict[str, object]:
        """The choice for a JSON document."""
        return {
            "from_block": self.blocks.first,
            "to_block": self.blocks.last,
            "segment_count": self.count,
        }


def choose_range(catalog: Catalog, start: Bound | None, end: Bound | None) -> SegmentChoice:
    """The loaded segments with any block between two bounds, both included; None: no bound.

    Of a long history only the volumes at the two ends are opened, and only for times. Raises
    `RangeError` where no segment lies between them.
    """
    if start and end:
        pairs = ((start.block, end.block), (start.micros, end.micros))
        if any(a is not None and b is not None and b < a for a, b in pairs):
            raise RangeError(f"{end.text} is before {start.text}: give the first one first")
    segments = catalog.blocks
    low = _height(catalog, start, 1) if start else 0
    high = _height(catalog, end, -1) if end else _FAR
    first = bisect_left(segments, low, key=attrgetter("last"))
    last = bisect_right(segments, high, key=attrgetter("first")) - 1
    if not 0 <= first <= last < len(segments):
        raise RangeError(_nothing(catalog, start, end))
    blocks = BlockRange(segments[first].first, segments[last].last)
    return SegmentChoice(blocks, last - first + 1)


def _height(catalog: Catalog, bound: Bound, step: int) -> int:
    """The block of a bound. Of a time it is the first one of a segment that reaches it.

    That is the first segment at the time or later or, with a step of -1, the last one at the time
    or before. Where there is none, the block lies beyond all.
    """
    if bound.block is not None:
        return bound.block
    assert bound.micros is not None  # it is one of both
    times = (bound.micros, _FAR) if step > 0 else (-_FAR, bound.micros)
    for volume in filter(Extent(times=times).reaches, catalog.snapshot.history[::step]):
        for block, first, last in segment_times(catalog, volume)[::step]:
            if first <= times[1] and times[0] <= last:
                return block
    return _FAR * step


def segment_times(catalog: Catalog, volume: Volume) -> Sequence[tuple[int, int, int]]:
    """The first block of each of a volume's segments, and its first and last `vega_time`.

    They ascend; those without rows of blocks are left out.
    """
    file = volume.data.get("blocks")
    if file is None:
        return ()
    shape, path = volume.shapes["blocks"], catalog.files.path(file)
    source = rows_sql("blocks", shape.column_list(), [path])
    with catalog.files.hold([file], prove=True), file_connection() as con:
        return con.execute(
            "select _segment, epoch_us(min(vega_time)), epoch_us(max(vega_time)) "  # noqa: S608 - quoted
            f"from {source} where vega_time is not null group by 1 order by 1"
        ).fetchall()


def _nothing(catalog: Catalog, start: Bound | None, end: Bound | None) -> str:
    words = (("from", start), ("to", end))
    span = " ".join(f"{word} {bound.text}" for word, bound in words if bound)
    history = catalog.snapshot.history
    if not history:
        return f"no segment lies {span}: nothing is loaded"
    begin, finish = history[0].times, history[-1].times
    times = f", {rfc3339(begin[0])} to {rfc3339(finish[1])}" if begin and finish else ""
    return f"no segment lies {span}: the warehouse holds {choose_range(catalog, None, None)}{times}"
