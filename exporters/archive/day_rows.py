"""Rows per UTC day of each table, as a chart: to the segment, on the day of its first block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from exporters.archive.block_days import BlockDay

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
