"""Which blocks the UTC days of an archive have, to the segment.

The archive says when the first and last block of a segment were made, and nothing of those
between. So a segment over midnight belongs to both days, and the blocks of a day are a range that
can be fetched as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from exporters.archive.entries import Csv, Entry
from transforms.block_range import BlockRange


@dataclass(frozen=True, slots=True, order=True)
class BlockDay:
    """A UTC day, from the first to the last block of the segments that have blocks of it."""

    day: date
    blocks: BlockRange


def days_of(entries: Iterable[Entry]) -> tuple[BlockDay, ...]:
    """The days on which segments with a ZIP of their own begin or end, ascending.

    Bundles repeat these, and their CSVs span several segments.
    """
    return merged_days(
        day
        for entry in entries
        if not entry.is_bundle
        for csv in entry.members
        for day in _days(csv)
    )


def merged_days(days: Iterable[BlockDay]) -> tuple[BlockDay, ...]:
    """The days in order, each once."""
    merged: dict[date, BlockRange] = {}
    for item in days:
        before = merged.get(item.day, item.blocks)
        first, last = min(before.first, item.blocks.first), max(before.last, item.blocks.last)
        merged[item.day] = BlockRange(first, last)
    return tuple(BlockDay(day, blocks) for day, blocks in sorted(merged.items()))


def day_json(item: BlockDay) -> list[str | int]:
    """A day as JSON: `["2023-01-31", 1, 1000]`."""
    return [item.day.isoformat(), item.blocks.first, item.blocks.last]


def day_of(item: tuple[str, int, int]) -> BlockDay:
    """The day that `day_json` wrote."""
    return BlockDay(date.fromisoformat(item[0]), BlockRange(item[1], item[2]))


def _days(csv: Csv) -> Iterator[BlockDay]:
    for time in csv.times or ():
        yield BlockDay(date.fromisoformat(time[:10]), csv.blocks)
