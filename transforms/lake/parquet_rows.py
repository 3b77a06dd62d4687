"""What the lake's tables of current state are made of: the newest one of a warehouse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

from transforms.duck import Connection
from transforms.files import link
from transforms.lake.parquet_files import lake_reader, write_file
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_rows
from transforms.warehouse.manifests.data_files import state_sql
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
        lake_reader(scratch, backing.memory_mb, file.size) as con,
    ):
        path, manifest_path = map(backing.files.path, (file, manifest))
        receipts = {receipt.table: receipt for receipt in manifest_receipts([manifest_path])}
        yield StateRows(states[-1], receipts, path, manifest_path, con)
