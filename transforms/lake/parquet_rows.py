"""The newest current state of a warehouse as files of the lake.

DuckDB writes a Parquet file of a table, and before anybody sees it, it is read again: the CSV is
rendered from it alone and held against its receipt (spec 2.8).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from transforms.duck import Connection, naming_large
from transforms.errors import IntegrityError
from transforms.tables.file_columns import file_rows
from transforms.warehouse.load.rendering import readable, rendering_problem
from transforms.warehouse.manifests.data_files import write_sql
from transforms.warehouse.manifests.receipts import Receipt


def write_file(con: Connection, rows: str, receipt: Receipt, path: Path) -> None:
    """Write typed rows (a relation) of the segment of a receipt as a file, and prove it.

    The same rows give the same bytes. Raises `IntegrityError` where the file does not render to
    what the receipt says.
    """
    table, scratch = receipt.table, path.parent
    with naming_large(f"table {table} as Parquet", scratch):
        query = file_rows(table, receipt.schema.columns, rows)
        row_bytes = receipt.bytes // max(receipt.rows, 1)
        con.execute(write_sql(query, path, row_bytes, is_unique=False))
    with readable_file(path, scratch):
        if problem := rendering_problem(con, path, [receipt], scratch):
            raise IntegrityError(
                f"written as Parquet, {problem}: nothing of it goes into the lake; report it, with "
                "the segment"
            )


def readable_file(path: Path, scratch: Path) -> AbstractContextManager[None]:
    """Say of a file of the lake that it cannot be read: an `IntegrityError`."""
    return readable(f"{path.name} of the lake", scratch, "strata verify says what mends it")
