"""How many rows a segment has in a table, and how many cells that no type of a file holds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from transforms.duck import Connection


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Of one segment: the rows, their least and greatest place, and whether any keeps texts.

    `raw_cells` are the cells that have their text in `_raw`: how many, by column.
    """

    rows: int = 0
    least: int = 1
    greatest: int = 0
    has_texts: bool = False
    raw_cells: dict[str, int] = field(default_factory=dict)

    def are_numbered(self, rows: int) -> bool:
        """Whether there are as many rows, numbered from 1, one by one."""
        return (self.rows, self.least, self.greatest) == (rows, 1, rows)


def row_counts(con: Connection, rows: str) -> defaultdict[int, RowCounts]:
    """Count rows (SQL, with its condition) and their cells, by first block."""
    query = (
        f"select _segment, count(*), min(_row), max(_row), count(_raw) > 0 "  # noqa: S608 - quoted
        f"from {rows} group by 1 order by 1"
    )
    counts = defaultdict[int, RowCounts](RowCounts)
    for first, *numbers in con.execute(query).fetchall():
        counts[first] = RowCounts(*numbers)
    if any(segment.has_texts for segment in counts.values()):
        cells = (
            "select _segment, name, count(*) from (select _segment, unnest(map_keys(_raw)) as name "  # noqa: S608
            f"from {rows} and _raw is not null) group by all order by all"
        )
        for first, name, count in con.execute(cells).fetchall():
            counts[first].raw_cells[name] = count
    return counts
