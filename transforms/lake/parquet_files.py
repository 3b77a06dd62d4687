"""The rows of a table over a run of segments as one Parquet file of the lake, proven.

It is the warehouse's data file of the run, which was proven when it was loaded. Of a table of
current state DuckDB writes a file, and before anybody sees that one it is read again: the CSV is
rendered from it alone and held against its receipt (spec 2.8), its types against those of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from transforms.duck import (
    Connection,
    naming_large,
    working_connection,
)
from transforms.errors import IntegrityError
from transforms.files import link
from transforms.memory import rendering_text
from transforms.tables.file_columns import (
    FileColumn,
    duck_type,
    file_columns,
)
from transforms.tables.registry import Column, fold_case
from transforms.warehouse.checks.file_check import (
    csvs_problem,
    file_types,
    types_problem,
)
from transforms.warehouse.load.rendering import readable
from transforms.warehouse.manifests.data_files import write_sql
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Shape

RowsQuery = Callable[[Sequence[Column]], str]
"""SQL for the rows of a file with these columns of CSVs."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A proven file of the lake: a table's rows of a run of segments.

    `columns` are those of the CSVs that it has.
    """

    path: Path
    columns: tuple[FileColumn, ...]


def write_file(con: Connection, rows: RowsQuery, receipt: Receipt, scratch: Path) -> WrittenFile:
    """Write a table as of the segment of its receipt, and prove it.

    The same rows give the same bytes. Raises `IntegrityError` where the file does not render to
    what the receipt says.
    """
    table, columns = receipt.table, receipt.schema.columns
    path = scratch / f"{table}.parquet"
    with naming_large(f"table {table} as Parquet", scratch):
        row_bytes = receipt.bytes // max(receipt.rows, 1)
        con.execute(write_sql(rows(columns), path, row_bytes, is_unique=False))
    with readable_file(path, scratch):
        if problem := csvs_problem(con, path, [receipt], scratch):
            raise IntegrityError(
                f"table {table}, written as Parquet: {problem}: nothing of it goes into the lake; "
                "report it, with the segment"
            )
        return _described(con, path, table, columns)


def linked_file(
    con: Connection, data: Path, table: str, shape: Shape, scratch: Path
) -> WrittenFile:
    """A data file of the warehouse as a file of the lake: the same bytes, proven when loaded.

    On one file system they are one file. Raises `IntegrityError` where a column was retyped, or is
    spelled otherwise, within the file's segments.
    """
    path = scratch / f"{table}.parquet"
    link(data, path)
    with readable_file(path, scratch):
        return _described(con, path, table, shape.column_list())


def _described(con: Connection, path: Path, table: str, columns: Sequence[Column]) -> WrittenFile:
    """A file with the columns of these of CSVs. Raises `IntegrityError` where it has others."""
    table_columns = file_columns(table, columns)
    newest = {fold_case(c.name): (c.name, duck_type(c.type)) for c in table_columns}
    for name, kind in sorted(file_types(con, path).items()):
        other, other_kind = newest.get(fold_case(name), (name, kind))
        if (name, kind) != (other, other_kind):
            raise IntegrityError(
                f"{path.name} of the lake: column {name} is {kind} there, and {other} is "
                f"{other_kind} in its newest segment: where a column was changed, readers "
                "would see other values, so nothing is added to this table; publish without "
                "the lake (STRATA_LAKE=0)"
            )
    if problem := types_problem(con, path, table_columns):
        raise IntegrityError(f"{path.name}: {problem}")
    return WrittenFile(path, table_columns)


def readable_file(path: Path, scratch: Path) -> AbstractContextManager[None]:
    """Say of a file of the lake that it cannot be read: an `IntegrityError`."""
    return readable(f"{path.name} of the lake", scratch, "strata verify says what mends it")


def lake_reader(
    scratch: Path, memory_mb: int, size: int | None = None
) -> AbstractContextManager[Connection]:
    """Open an in-memory DuckDB for files of the lake, where work has `memory_mb` of memory.

    `size` is that of `working_connection`.

    To render a row of many megabytes from Parquet takes a third more than to load it: with half as
    much again, what was loaded can be published.
    """
    return working_connection(scratch, size=size, memory_limit=rendering_text(memory_mb))
