"""The newest current state of a warehouse as files of the lake.

DuckDB writes a Parquet file of a table, and before anybody sees it, it is read again: the CSV is
rendered from it alone and held against its receipt (spec 2.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from transforms.duck import Connection, naming_large, working_connection
from transforms.errors import IntegrityError
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_rows
from transforms.warehouse.load.rendering import readable, rendering_problem
from transforms.warehouse.manifests.data_files import state_sql, write_sql
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class StateRows:
    """The newest current state: its volume, the receipts of its tables, the file of its manifest.

    `write` writes the table of a receipt to a path; see `write_file`.
    """

    volume: Volume
    receipts: Mapping[str, Receipt]
    manifest: Path
    write: Callable[[Receipt, Path], None]


@contextmanager
def state_rows(warehouse: Warehouse) -> Iterator[StateRows | None]:
    """Open the newest current state; None where there is none.

    Raises `IntegrityError` where it cannot be read.
    """
    catalog, backing = warehouse.catalog(), warehouse.backing
    states = catalog.states() if catalog else []
    if not states:
        yield None
        return
    file, manifest = states[-1].database, states[-1].file
    with (
        backing.files.hold([file, manifest]),
        scratch_folder(backing.scratch) as scratch,
        working_connection(scratch, size=file.size, memory_limit=backing.rendering_limit) as con,
    ):
        path, manifest_path = map(backing.files.path, (file, manifest))
        receipts = {receipt.table: receipt for receipt in manifest_receipts([manifest_path])}
        turn = Lock()

        def write(receipt: Receipt, copy: Path) -> None:
            with turn:
                write_file(con, state_sql(receipt.table, [path]), receipt, copy)

        yield StateRows(states[-1], receipts, manifest_path, write)


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
