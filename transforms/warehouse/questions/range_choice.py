"""From heights and times to whole segments: a range snaps outwards to the loaded segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from transforms.block_range import BlockRange
from transforms.bounds import Bound, lower_bound, rfc3339, upper_bound
from transforms.duck import file_connection
from transforms.errors import RangeError
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.shapes import Extent, Volume

_TIMES = """
    select epoch_us(min(vega_time)), epoch_us(max(vega_time))
    from {blocks}
    where _segment = $1
"""
_NEAREST = "select {nearest}(_segment) from {{blocks}} where vega_time {than} make_timestamptz($1)"
_FAR = 2**62
_FIRST, _LAST = attrgetter("first"), attrgetter("last")


@dataclass(frozen=True, slots=True)
class TimedSegments:
    """Loaded segments, and statements over their blocks, which `ask` runs (None: they do)."""

    catalog: Catalog
    ask: Callable[[Volume, str, list[int]], Sequence[tuple[Any, ...]]] | None = None

    def rows(self, volume: Volume, sql: str, values: list[int]) -> Sequence[tuple[Any, ...]]:
        """Run a statement over a volume's `{blocks}`; none where it has no such table."""
        file = volume.data.get("blocks")
        if self.ask is not None or file is None:
            return self.ask(volume, sql, values) if self.ask else ()
        shape, files = volume.shapes["blocks"], self.catalog.files
        with files.hold([file]), file_connection() as con:
            blocks = rows_sql("blocks", shape.column_list(), [files.path(file)], shape.raw)
            return con.execute(sql.format(blocks=blocks), values).fetchall()

    def times(self, segment: BlockRange) -> tuple[int | None, int | None]:
        """The first and last `vega_time` of a segment; None without a table of blocks."""
        rows = self.rows(self.catalog.volume_of(segment), _TIMES, [segment.first])
        return (rows[0][0], rows[0][1]) if rows else (None, None)

    def first_place(self, start: Bound) -> int:
        """The place of the first segment that ends at a bound or later."""
        block = start.block
        if start.micros is not None:
            block = self._nearest(self.catalog.history(), start.micros, "min", ">=")
        return bisect_left(self.catalog.blocks, _FAR if block is None else block, key=_LAST)

    def last_place(self, end: Bound) -> int:
        """The place of the last segment that begins at a bound or before; -1 without one."""
        block = end.block
        if end.micros is not None:
            block = self._nearest(self.catalog.history()[::-1], end.micros, "max", "<=")
        return bisect_right(self.catalog.blocks, -1 if block is None else block, key=_FIRST) - 1

    def _nearest(
        self, volumes: Sequence[Volume], micros: int, nearest: str, than: str
    ) -> int | None:
        """The first block of the nearest segment with a time on one side of another."""
        extent = Extent(times=(micros, _FAR) if than == ">=" else (-_FAR, micros))
        sql = _NEAREST.format(nearest=nearest, than=than)
        for volume in filter(extent.reaches, volumes):
            for (block,) in self.rows(volume, sql, [micros]):
                if block is not None:
                    return int(block)
        return None


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """The segments that a range touches, ascending, and the times of their first and last block.

    The times are None where a segment has no table of blocks.
    """

    segments: tuple[BlockRange, ...]
    times: tuple[int | None, int | None]

    @property
    def blocks(self) -> BlockRange:
        """From the first block of the first segment to the last block of the last."""
        return BlockRange(self.segments[0].first, self.segments[-1].last)

    def __str__(self) -> str:
        count = len(self.segments)
        plural = "" if count == 1 else "s"
        times = (rfc3339(time) if time is not None else "?" for time in self.times)
        return f"blocks {self.blocks} ({count:,} segment{plural}), {' to '.join(times)}"

    def facts(self) -> dict[str, object]:
        """The choice for a JSON document."""
        first, last = (rfc3339(time) if time is not None else None for time in self.times)
        return {
            "from_block": self.blocks.first,
            "to_block": self.blocks.last,
            "first_time": first,
            "last_time": last,
            "segment_count": len(self.segments),
        }


def choose_between(index: TimedSegments, start: str | None, end: str | None) -> SegmentChoice:
    """The same as `choose_range` of what people write. Raises `RangeError` also where it is odd."""
    lower = lower_bound(start) if start else None
    return choose_range(index, lower, upper_bound(end) if end else None)


def choose_range(index: TimedSegments, start: Bound | None, end: Bound | None) -> SegmentChoice:
    """The loaded segments with any block between two bounds, both included; None: no bound.

    Of a long history only the volumes at the two ends are opened. Raises `RangeError` where no
    segment lies between them.
    """
    if start and end and _is_reversed(start, end):
        raise RangeError(f"{end.text} is before {start.text}: give the first one first")
    segments = index.catalog.blocks
    first = index.first_place(start) if start else 0
    last = index.last_place(end) if end else len(segments) - 1
    if not 0 <= first <= last < len(segments):
        raise RangeError(_nothing(index, start, end))
    chosen = segments[first : last + 1]
    (first_time, _), (_, last_time) = map(index.times, (chosen[0], chosen[-1]))
    return SegmentChoice(chosen, (first_time, last_time))


def _is_reversed(start: Bound, end: Bound) -> bool:
    blocks, times = (start.block, end.block), (start.micros, end.micros)
    return any(
        first is not None and last is not None and last < first for first, last in (blocks, times)
    )


def _nothing(index: TimedSegments, start: Bound | None, end: Bound | None) -> str:
    span = " ".join(
        f"{word} {bound.text}" for word, bound in (("from", start), ("to", end)) if bound
    )
    if not index.catalog.blocks:
        return f"no segment lies {span}: nothing is loaded"
    return f"no segment lies {span}: the warehouse holds {choose_range(index, None, None)}"
