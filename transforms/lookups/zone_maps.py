"""Zone maps: between which rows of a table a value can lie, known without looking at a row.

The rows of a table in a file that never changes are numbered from 0 as they lie (`rowid`). Of every
2,048 of them, a row block, the least and the greatest value are kept: where rows are sorted, or
were by parts, that leaves a row block or two to read, whatever the size of the table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Generic, TypeVar

ROW_BLOCK = 2048
"""Rows: as many as DuckDB reads at once."""

_Value = TypeVar("_Value", str, int)
Range = tuple[int, int]
"""The first row and the last."""


def zone_map_sql(table: str, value: str) -> str:
    """SQL that makes the zone map of a table by the SQL of a value."""
    return (
        f"select rowid // {ROW_BLOCK} as stretch, "  # noqa: S608 - our own names
        f"min({value}) as first, max({value}) as last "
        f"from {table} group by 1 order by 1"
    )


@dataclass(slots=True)
class _Run(Generic[_Value]):
    """Row blocks that follow each other and whose values do not descend; `start` is the first's."""

    start: int
    firsts: list[_Value] = field(default_factory=list)
    lasts: list[_Value] = field(default_factory=list)


class ZoneMap(Generic[_Value]):
    """The row blocks of one table: (least value, greatest value), None where all are NULL."""

    def __init__(self, row_blocks: Iterable[tuple[_Value | None, _Value | None]]) -> None:
        self._runs: list[_Run[_Value]] = []
        self._count = 0
        self._gaps = False
        for number, (first, last) in enumerate(row_blocks):
            self._count += 1
            if first is None or last is None:
                self._gaps = True
                continue
            run = self._runs[-1] if self._runs else None
            if run is None or first < run.lasts[-1] or run.start + len(run.lasts) < number:
                run = _Run(number)
                self._runs.append(run)
            run.firsts.append(first)
            run.lasts.append(last)

    def ranges(self, value: _Value) -> Iterator[Range]:
        """The rows among which are all with this value, ascending; the last may be too far."""
        for run in self._runs:
            begin, end = bisect_left(run.lasts, value), bisect_right(run.firsts, value)
            if begin < end:
                yield (run.start + begin) * ROW_BLOCK, (run.start + end) * ROW_BLOCK - 1

    def near(self, value: _Value | None, count: int, *, descending: bool) -> Range | None:
        """The rows among which are the `count` next ones from a value on, it included.

        A value of None is before all others. Fewer rows are in the range where it `reaches_end`, or
        where some have no value. None where the rows are in no order.
        """
        if self._gaps or len(self._runs) != 1:
            return None
        (run,) = self._runs
        if descending:
            end = self._count if value is None else bisect_right(run.firsts, value)
            begin = end if value is None else min(end, bisect_left(run.lasts, value))
            # The last row block of a table may be short: one more makes up for it.
            return max(0, (begin - 1) * ROW_BLOCK - count), end * ROW_BLOCK - 1
        begin = 0 if value is None else bisect_left(run.lasts, value)
        end = 0 if value is None else max(begin, bisect_right(run.firsts, value))
        # Whole row blocks: all but the last of a table are full.
        return begin * ROW_BLOCK, (end + ceil(count / ROW_BLOCK)) * ROW_BLOCK - 1

    def reaches_end(self, rows: Range, *, descending: bool) -> bool:
        """Whether no rows follow those of a range."""
        return rows[0] == 0 if descending else rows[1] >= self._count * ROW_BLOCK - 1
