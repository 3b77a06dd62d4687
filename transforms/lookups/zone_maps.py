"""Zone maps: between which rows of a table a key can lie, known without looking at a row.

The rows of a table in a file that never changes are numbered from 0 as they lie (`rowid`). Of every
2,048 of them, a row block, the least and the greatest key are kept: where rows are sorted by parts,
that leaves a row block or two of each part to read, whatever the size of the table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

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


Runs = Sequence[tuple[int, int, int]]
"""Row blocks that follow each other and whose keys do not descend.

Each is the number of the first one, and the places in a list of keys where theirs begin and end.
"""


class ZoneMap:
    """The row blocks of one table, with the least and the greatest key of each."""

    def __init__(self, runs: Runs, firsts: Sequence[str], lasts: Sequence[str]) -> None:
        self.runs = runs
        self.firsts = firsts
        self.lasts = lasts

    @classmethod
    def of(cls, row_blocks: Iterable[tuple[str | None, str | None]]) -> ZoneMap:
        """The map of row blocks in their order: (least key, greatest key), None of only NULLs."""
        runs: list[tuple[int, int, int]] = []
        firsts: list[str] = []
        lasts: list[str] = []
        for number, (first, last) in enumerate(row_blocks):
            if first is None or last is None:
                continue
            start, begin, end = runs[-1] if runs else (number, 0, 0)
            if not runs or first < lasts[-1] or start + end - begin < number:
                runs.append((number, len(lasts), len(lasts) + 1))
            else:
                runs[-1] = (start, begin, end + 1)
            firsts.append(first)
            lasts.append(last)
        return cls(runs, firsts, lasts)

    def ranges(self, key: str) -> Iterator[Range]:
        """The rows among which are all with this key, ascending; the last may be too far."""
        for start, low, high in self.runs:
            begin = bisect_left(self.lasts, key, low, high)
            end = bisect_right(self.firsts, key, low, high)
            if begin < end:
                first, last = start + begin - low, start + end - low
                yield first * ROW_BLOCK, last * ROW_BLOCK - 1
