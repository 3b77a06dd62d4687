"""The days of an archive as a calendar on its page: a row for each month, a cell for each day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

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
