"""Zone maps: between which rows of a table a key can lie, known without looking at a row.

The rows of a table in a file that never changes are numbered from 0 as they lie (`rowid`). Of every
2,048 of them, a row block, the least and the greatest key are kept: where rows are sorted by parts,
that leaves a row block or two of each part to read, whatever the size of the table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

ROW_BLOCK = 2048
"""Rows: as many as DuckDB reads at once."""

Range = tuple[int, int]
"""The first row and the last."""


def zone_map_sql(table: str, value: str) -> str:
    """SQL that makes the zone map of a table by the SQL of a key."""
    return (
        f"select rowid // {ROW_BLOCK} as row_block, "  # noqa: S608 - our own names
        f"min({value}) as first, max({value}) as last "
        f"from {table} group by 1 order by 1"
    )


@dataclass(slots=True)
class _Run:
    """Row blocks that follow each other and whose keys do not descend; `start` is the first's."""

    start: int
    firsts: list[str] = field(default_factory=list)
    lasts: list[str] = field(default_factory=list)


class ZoneMap:
    """The row blocks of one table: (least key, greatest key), None where all are NULL."""

    def __init__(self, row_blocks: Iterable[tuple[str | None, str | None]]) -> None:
        self._runs: list[_Run] = []
        for number, (first, last) in enumerate(row_blocks):
            if first is None or last is None:
                continue
            run = self._runs[-1] if self._runs else None
            if run is None or first < run.lasts[-1] or run.start + len(run.lasts) < number:
                run = _Run(number)
                self._runs.append(run)
            run.firsts.append(first)
            run.lasts.append(last)

    def ranges(self, key: str) -> Iterator[Range]:
        """The rows among which are all with this key, ascending; the last may be too far."""
        for run in self._runs:
            begin, end = bisect_left(run.lasts, key), bisect_right(run.firsts, key)
            if begin < end:
                yield (run.start + begin) * ROW_BLOCK, (run.start + end) * ROW_BLOCK - 1
