"""The days of an archive on its page: a calendar, and each table's rows as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby

from exporters.archive.block_days import BlockDay
from exporters.archive.conditions import Condition, DayCondition
from exporters.archive.figures import blocks_text

_MOST_MONTHS = 36
_MOST_REMARKS = 60

Cell = tuple[str, int, str]
"""A day: its condition, its place in the month from 0, and what it says when pointed at."""


@dataclass(frozen=True, slots=True)
class DayCalendar:
    """The newest months, ascending, and the newest days of which there is something to say.

    `months` have their name and cells; `left_out` counts the remarks that are not shown.
    """

    months: Sequence[tuple[str, Sequence[Cell]]]
    remarks: Sequence[DayCondition]
    left_out: int
    conditions: Sequence[str] = tuple(Condition)


def day_calendar(days: Sequence[DayCondition]) -> DayCalendar:
    """Lay out days that ascend."""
    months = [
        (month, [_cell(row) for row in rows])
        for month, rows in groupby(days, key=lambda row: f"{row.day:%Y-%m}")
    ]
    remarks = [row for row in reversed(days) if row.reason is not None]
    shown = remarks[:_MOST_REMARKS]
    return DayCalendar(months[-_MOST_MONTHS:], shown, len(remarks) - len(shown))


def _cell(row: DayCondition) -> Cell:
    blocks = f", blocks {blocks_text(row.blocks)}" if row.blocks else ""
    return row.condition, row.day.day - 1, f"{row.day}: {row.condition}{blocks}"


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
