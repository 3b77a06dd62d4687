"""How many cells of each column have no value in `main`, and text in `exact`, by segment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from transforms.duck import Connection, quote_name
from transforms.tables.conform import conversion
from transforms.tables.file_columns import has_column
from transforms.tables.registry import TableSchema
from transforms.warehouse.views.catalog_columns import rounded_columns


def count_raw(
    con: Connection, schema: TableSchema, rows: str, *, has_texts: bool = True
) -> Mapping[int, dict[str, int]]:
    """Count the cells of rows (SQL, with its condition) by first block and column.

    `has_texts` says whether a row has texts in `_raw`. Of a time that only Parquet does not hold,
    the count is there, and may be 0.
    """
    counts: defaultdict[int, dict[str, int]] = defaultdict(dict)
    texts = _texts(con, schema, rows) if has_texts else ()
    for first, name, count in (*texts, *_decimals(con, schema, rows)):
        counts[first][name] = count
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
        if has_column(column):  # otherwise all its cells are texts, and none is unfit
            is_time = conversion(schema.table, column).type == "TIMESTAMPTZ"
            yield first, name, count - times if is_time else count


def _decimals(con: Connection, schema: TableSchema, rows: str) -> Iterator[tuple[int, str, int]]:
    """Of texts that `main` shows as decimals."""
    columns = rounded_columns(schema.table, schema.columns)
    if columns:
        missing = (f"count({quote_name(name)}) - count({sql})" for name, sql in columns.items())
        query = f"select _segment, {', '.join(missing)} from {rows} group by 1 order by 1"  # noqa: S608
        for first, *counts in con.execute(query).fetchall():
            yield from (
                (first, name, count) for name, count in zip(columns, counts, strict=True) if count
            )
