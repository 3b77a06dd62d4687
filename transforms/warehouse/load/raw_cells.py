"""How many cells of each column keep their text in `_raw`, by segment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from transforms.duck import Connection
from transforms.tables.conform import conversion
from transforms.tables.file_columns import has_column
from transforms.tables.registry import TableSchema


def count_raw(con: Connection, schema: TableSchema, rows: str) -> Mapping[int, dict[str, int]]:
    """Count the cells of rows (SQL, with its condition) by first block and column.

    A time that only Parquet does not hold counts as none.
    """
    cells = (
        "select _segment, unnest(map_keys(_raw)) as name, "  # noqa: S608 - quoted
        f"unnest(map_values(_raw)) as cell from {rows} and _raw is not null"
    )
    listed = con.execute(
        "select _segment, name, count(*), count(try_cast(cell as timestamptz)) "  # noqa: S608
        f"from ({cells}) group by all order by all"
    ).fetchall()
    columns = {column.name: column for column in schema.columns}
    counts: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for first, name, count, times in listed:
        column = columns[name]
        if has_column(column):  # otherwise all its cells are texts, and none is unfit
            is_time = conversion(schema.table, column).type == "TIMESTAMPTZ"
            counts[first][name] = count - times if is_time else count
    return counts
