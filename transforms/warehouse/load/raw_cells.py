"""How many rows a segment has in a table, and how many cells that no type holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from transforms.duck import Connection
from transforms.tables.conform import conversion
from transforms.tables.registry import TableSchema


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Of one segment: the rows, their least and greatest place, the cells that do not fit.

    These have text in `_raw` and no value: how many, by column. Of a time that only Parquet does
    not hold, the count is there, and may be 0.
    """

    rows: int = 0
    least: int = 1
    greatest: int = 0
    has_texts: bool = False
    raw_cells: dict[str, int] = field(default_factory=dict)

    def are_numbered(self, rows: int) -> bool:
        """Whether there are as many rows, numbered from 1, one by one."""
        return (self.rows, self.least, self.greatest) == (rows, 1, rows)


def row_counts(
    con: Connection, schema: TableSchema, rows: str, counted: str = "*"
) -> defaultdict[int, RowCounts]:
    """Count rows (SQL, with its condition) and their cells, by first block.

    Who wrote the places of rows does not repeat any; of others, count `distinct _row`.
    """
    query = (
        f"select _segment, count({counted}), min(_row), max(_row), count(_raw) > 0 "  # noqa: S608 - quoted
        f"from {rows} group by 1 order by 1"
    )
    counts = defaultdict[int, RowCounts](RowCounts)
    for first, *numbers in con.execute(query).fetchall():
        counts[first] = RowCounts(*numbers)
    if any(segment.has_texts for segment in counts.values()):
        for first, name, count in _texts(con, schema, rows):
            counts[first].raw_cells[name] = count
    return counts


def _texts(con: Connection, schema: TableSchema, rows: str) -> Iterator[tuple[int, str, int]]:
    """Of cells whose text is in `_raw`."""
    cells = (
        "select _segment, unnest(map_keys(_raw)) as name, "  # noqa: S608 - quoted
        f"unnest(map_values(_raw)) as cell from {rows} and _raw is not null"
    )
    listed = con.execute(
        "select _segment, name, count(*), count(try_cast(cell as timestamptz)) "  # noqa: S608
        f"from ({cells}) group by all order by all"
    ).fetchall()
    columns = {column.name: column for column in schema.columns}
    for first, name, count, times in listed:
        column = columns[name]
        is_time = conversion(schema.table, column).type == "TIMESTAMPTZ"
        yield first, name, count - times if is_time else count
