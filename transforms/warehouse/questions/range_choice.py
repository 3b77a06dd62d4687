"""From heights and times to whole segments: a range snaps outwards to the loaded segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from transforms.block_range import BlockRange
from transforms.bounds import Bound, lower_bound, rfc3339, upper_bound
from transforms.duck import file_connection
from transforms.errors import RangeError
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.shapes import Extent, Times, Volume

_TIMES = """
    select _segment, epoch_us(min(vega_time)), epoch_us(max(vega_time))
    from {blocks}
    where _segment between $1 and $2
    group by _segment
    order by _segment
"""


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


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """The segments that a range touches, ascending, and the times of their first and last block.

    The times are None where a segment has no table of blocks.
    """

    segments: tuple[BlockRange, ...]
    first_time: int | None
    last_time: int | None

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

    @property
    def times(self) -> tuple[int | None, int | None]:
        """First and last."""
        return self.first_time, self.last_time


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
    catalog = index.catalog
    segments = catalog.blocks
    first = _first(index, catalog, start) if start else 0
    last = _last(index, catalog, end) if end else len(segments) - 1
    if not 0 <= first <= last < len(segments):
        raise RangeError(_nothing(index, catalog, start, end))
    chosen = segments[first : last + 1]
    ends = segment_times(index, {chosen[0], chosen[-1]})
    opening, closing = ends.get(chosen[0]), ends.get(chosen[-1])
    return SegmentChoice(chosen, opening and opening[0], closing and closing[1])


def segment_times(index: TimedSegments, segments: Iterable[BlockRange]) -> dict[BlockRange, Times]:
    """First and last `vega_time` of loaded segments; those without a table of blocks lack.

    Opens each volume that holds some of them.
    """
    catalog, queue = index.catalog, sorted(segments)
    result: dict[BlockRange, Times] = {}
    while queue:
        volume = catalog.volume_of(queue[0])
        inside = [blocks for blocks in queue if blocks.last <= volume.blocks.last]
        queue = queue[len(inside) :]
        bounds = [inside[0].first, inside[-1].first]
        rows = index.rows(volume, _TIMES, bounds)
        times = {first: (begin, last) for first, begin, last in rows}
        result |= {blocks: times[blocks.first] for blocks in inside if blocks.first in times}
    return result


def _first(index: TimedSegments, catalog: Catalog, start: Bound) -> int:
    """The place of the first segment that ends at the bound or later."""
    if start.micros is None:
        return bisect_left(catalog.blocks, start.block or 0, key=attrgetter("last"))
    sql = "select min(_segment) from {blocks} where vega_time >= make_timestamptz($1)"
    for volume in catalog.history():
        if Extent(times=(start.micros, 2**62)).reaches(volume):
            for (block,) in index.rows(volume, sql, [start.micros]):
                if block is not None:
                    return bisect_left(catalog.blocks, block, key=attrgetter("first"))
    return len(catalog.blocks)


def _last(index: TimedSegments, catalog: Catalog, end: Bound) -> int:
    """The place of the last segment that begins at the bound or before; -1 where there is none."""
    if end.micros is None:
        return bisect_right(catalog.blocks, end.block or 0, key=attrgetter("first")) - 1
    sql = "select max(_segment) from {blocks} where vega_time <= make_timestamptz($1)"
    for volume in reversed(catalog.history()):
        if Extent(times=(-(2**62), end.micros)).reaches(volume):
            for (block,) in index.rows(volume, sql, [end.micros]):
                if block is not None:
                    return bisect_left(catalog.blocks, block, key=attrgetter("first"))
    return -1


def _is_reversed(start: Bound, end: Bound) -> bool:
    blocks, times = (start.block, end.block), (start.micros, end.micros)
    return any(
        first is not None and last is not None and last < first for first, last in (blocks, times)
    )


def _nothing(index: TimedSegments, catalog: Catalog, start: Bound | None, end: Bound | None) -> str:
    span = " ".join(
        f"{word} {bound.text}" for word, bound in (("from", start), ("to", end)) if bound
    )
    if not catalog.blocks:
        return f"no segment lies {span}: nothing is loaded"
    return f"no segment lies {span}: the warehouse holds {choose_range(index, None, None)}"
