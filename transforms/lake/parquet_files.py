"""A table of current state as one Parquet file of the lake, proven.

DuckDB writes it, and before anybody sees it, it is read again: the CSV is rendered from it alone
and held against its receipt (spec 2.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from transforms.duck import (
    Connection,
    naming_large,
    working_connection,
)
from transforms.errors import IntegrityError
from transforms.memory import rendering_text
from transforms.tables.registry import Column
from transforms.warehouse.checks.file_check import (
    csvs_problem,
)
from transforms.warehouse.load.rendering import readable
from transforms.warehouse.manifests.data_files import write_sql
from transforms.warehouse.manifests.receipts import Receipt

RowsQuery = Callable[[Sequence[Column]], str]
"""SQL for the rows of a file with these columns of CSVs."""


def write_file(con: Connection, rows: RowsQuery, receipt: Receipt, scratch: Path) -> Path:
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
    return path


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
