"""Which blocks the UTC days of an archive have, to the segment.

The archive says when the first and last block of a segment were made, and nothing of those
between. So a segment over midnight belongs to both days, and the blocks of a day are a range that
can be fetched as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

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
    """The days on which segments with a ZIP of their own begin or end, ascending.

    Bundles repeat these, and their CSVs span several segments.
    """
    singles = [entry for entry in entries if not entry.is_bundle]
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
