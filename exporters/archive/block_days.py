"""Which blocks the UTC days of an archive have, to the segment, and their rows as a chart.

The archive says when the first and last block of a segment were made, and nothing of those
between. So a segment over midnight belongs to both days, and the blocks of a day are a range that
can be fetched as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from exporters.archive.entries import Entry
from transforms.block_range import BlockRange


@dataclass(frozen=True, slots=True)
class BlockDay:
    """A UTC day, from the first to the last block of the segments that have blocks of it.

    `rows` are those of segments that begin on it, by table; tables without any are left out.
    """

    day: date
    blocks: BlockRange
    rows: tuple[tuple[str, int], ...] = ()


def days_of(entries: Iterable[Entry]) -> tuple[BlockDay, ...]:
    """The days on which segments begin or end, ascending."""
    singles = [*entries]
    rows: dict[BlockRange, list[tuple[str, int]]] = {}
    for entry in singles:
        rows.setdefault(entry.blocks, []).append((entry.table, entry.rows))
    return merged_days(day for entry in singles for day in _days(entry, rows[entry.blocks]))


def merged_days(days: Iterable[BlockDay]) -> tuple[BlockDay, ...]:
    """The days in order, each once."""
    ranges: dict[date, BlockRange] = {}
    rows: dict[date, Counter[str]] = {}
    for item in days:
        before = ranges.get(item.day, item.blocks)
        first, last = min(before.first, item.blocks.first), max(before.last, item.blocks.last)
        ranges[item.day] = BlockRange(first, last)
        rows.setdefault(item.day, Counter()).update(dict(item.rows))
    return tuple(
        BlockDay(day, blocks, tuple(sorted((+rows[day]).items())))
        for day, blocks in sorted(ranges.items())
    )


def day_json(item: BlockDay) -> list[str | int | dict[str, int]]:
    """A day as JSON: `["2023-01-31", 1, 1000, {"orders": 42}]`."""
    return [item.day.isoformat(), item.blocks.first, item.blocks.last, dict(item.rows)]


def day_of(item: tuple[str, int, int, dict[str, int]]) -> BlockDay:
    """The day that `day_json` wrote."""
    day, first, last, rows = item
    return BlockDay(date.fromisoformat(day), BlockRange(first, last), tuple(rows.items()))


def _days(entry: Entry, rows: Iterable[tuple[str, int]]) -> Iterator[BlockDay]:
    """The day on which the segment of a ZIP of blocks begins, with its rows, and the last one."""
    if entry.times is not None:
        first, last = (date.fromisoformat(time[:10]) for time in entry.times)
        yield BlockDay(first, entry.blocks, tuple(rows))
        yield BlockDay(last, entry.blocks)


_MOST_BARS = 240
_HEIGHT = 100
_LEAST = 3  # a day of few rows must be seen beside one of many


@dataclass(frozen=True, slots=True)
class DayRows:
    """Bars of equal width over all days, as an SVG path of `width` by 100; `most` is in one day."""

    most: int
    width: int
    path: str


def day_rows(days: Sequence[BlockDay]) -> Mapping[str, DayRows]:
    """The chart of each table that has rows, to its own scale; a bar may sum several days."""
    counts: dict[str, dict[date, int]] = {}
    for item in days:
        for table, rows in item.rows:
            counts.setdefault(table, {})[item.day] = rows
    if not days:
        return {}
    return {table: _chart(rows, days[0].day, days[-1].day) for table, rows in counts.items()}


def _chart(rows: Mapping[date, int], first: date, last: date) -> DayRows:
    step = (last - first).days // _MOST_BARS + 1
    bars = [0] * ((last - first).days // step + 1)
    for day, count in rows.items():
        bars[(day - first) // timedelta(days=step)] += count
    highest = max(bars)
    path = (
        f"M{place} {_HEIGHT}v-{max(_LEAST, count * _HEIGHT // highest)}h1V{_HEIGHT}"
        for place, count in enumerate(bars)
        if count
    )
    return DayRows(max(rows.values()), len(bars), "".join(path))
