"""The newest current state of a warehouse as files of the lake.

DuckDB writes a Parquet file of a table, and before anybody sees it, it is read again: the CSV is
rendered from it alone and held against its receipt (spec 2.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

from transforms.duck import Connection, naming_large, working_connection
from transforms.errors import IntegrityError
from transforms.files import link
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_rows
from transforms.tables.registry import Column
from transforms.warehouse.checks.file_check import csvs_problem
from transforms.warehouse.load.rendering import readable
from transforms.warehouse.manifests.data_files import state_sql, write_sql
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class StateRows:
    """The tables of the newest current state: its volume, and the receipts of its tables."""

    volume: Volume
    receipts: Mapping[str, Receipt]
    _path: Path
    _manifest: Path
    _con: Connection
    _writing: Lock = field(default_factory=Lock)

    def write(self, table: str, scratch: Path) -> Path:
        """Write a table whole; see `write_file`."""
        with self._writing:
            query = partial(file_rows, table, rows=state_sql(table, [self._path]))
            return write_file(self._con, query, self.receipts[table], scratch)

    def manifest(self, scratch: Path) -> Path:
        """Its manifest as a file of the lake: the same bytes."""
        path = scratch / "manifest.parquet"
        link(self._manifest, path)
        return path


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
        yield StateRows(states[-1], receipts, path, manifest_path, con)


def write_file(
    con: Connection, rows: Callable[[Sequence[Column]], str], receipt: Receipt, scratch: Path
) -> Path:
    """Write a table as of the segment of its receipt, and prove it; `rows` gives SQL for columns.

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
