"""What the lake's tables are made of: a warehouse's volumes of history, and its newest state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.files import link
from transforms.lake.parquet_files import WrittenFile, lake_reader, linked_file, write_file
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_rows
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.manifests.data_files import state_sql
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class LoadedHistory:
    """The volumes of history that are loaded, ascending; files are opened one at a time."""

    catalog: Catalog
    volumes: Sequence[Volume]
    _files: LocalFiles
    _con: Connection
    _opening: Lock = field(default_factory=Lock)

    def receipts(self, blocks: BlockRange) -> list[Receipt]:
        """The receipts of history in the segments that lie in these blocks, ascending."""
        return [*self.catalog.receipts(blocks)]

    def manifest(self, volume: Volume, scratch: Path) -> Path:
        """A volume's manifest as a file of the lake: the same bytes, hashed again."""
        path = scratch / "manifest.parquet"
        with self._files.hold([volume.file], recheck=True):
            link(self._files.path(volume.file), path)
        return path

    def file(self, volume: Volume, table: str, scratch: Path) -> WrittenFile:
        """A data file of a volume as a file of the lake; see `linked_file`.

        Raises `IntegrityError` where it is damaged.
        """
        data = volume.data[table]
        # Bytes that were proven by the load are hashed before they are published.
        with self._opening, self._files.hold([data], recheck=True):
            shape = volume.shapes[table]
            return linked_file(self._con, self._files.path(data), table, shape, scratch)


@contextmanager
def loaded_history(warehouse: Warehouse) -> Iterator[LoadedHistory]:
    """Open the history that is loaded."""
    catalog, backing = warehouse.loaded_catalog(), warehouse.backing
    with (
        scratch_folder(backing.scratch) as scratch,
        lake_reader(scratch, backing.memory_mb) as con,
    ):
        yield LoadedHistory(catalog, catalog.history(), backing.files, con)


@dataclass(frozen=True)
class LoadedState:
    """The newest current state: its volume, and the receipts of its tables."""

    volume: Volume
    receipts: Mapping[str, Receipt]

    @property
    def blocks(self) -> BlockRange:
        """Its segment."""
        return self.volume.blocks


@dataclass(frozen=True)
class StateRows(LoadedState):
    """The tables of the newest segment's current state, as of its end, by name."""

    _path: Path
    _manifest: Path
    _con: Connection
    _writing: Lock = field(default_factory=Lock)

    def write(self, table: str, scratch: Path) -> WrittenFile:
        """Write a table whole; see `write_file`."""
        with self._writing:
            query = partial(file_rows, table, rows=state_sql(table, [self._path]))
            return write_file(self._con, query, self.receipts[table], scratch)

    def manifest(self, scratch: Path) -> Path:
        """Its manifest as a file of the lake: the same bytes."""
        path = scratch / "manifest.parquet"
        link(self._manifest, path)
        return path


def loaded_state(catalog: Catalog | None) -> LoadedState | None:
    """The newest current state that is loaded; None where there is none.

    Nothing is changed. Raises `IntegrityError` where its manifest cannot be read.
    """
    states = catalog.states() if catalog else []
    if catalog is None or not states:
        return None
    catalog.files.bring([states[-1].file])
    receipts = manifest_receipts([catalog.files.path(states[-1].file)])
    return LoadedState(states[-1], {receipt.table: receipt for receipt in receipts})


@contextmanager
def state_rows(warehouse: Warehouse) -> Iterator[StateRows | None]:
    """Open the newest current state; None where there is none."""
    catalog, backing = warehouse.catalog(), warehouse.backing
    state = loaded_state(catalog)
    if state is None:
        yield None
        return
    file, manifest = state.volume.database, state.volume.file
    with (
        backing.files.hold([file, manifest]),
        scratch_folder(backing.scratch) as scratch,
        lake_reader(scratch, backing.memory_mb, file.size) as con,
    ):
        path, manifest_path = map(backing.files.path, (file, manifest))
        yield StateRows(state.volume, state.receipts, path, manifest_path, con)
