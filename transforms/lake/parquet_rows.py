"""What the lake's tables are made of: a warehouse's volumes of history, and its newest state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_name, read_only_connection
from transforms.duck_errors import Error
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import WrittenFile, lake_reader, link, linked_file, write_file
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_rows
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.manifests.manifest_rows import read_receipts
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
    """The newest current state: its segment, and the receipts of its tables."""

    blocks: BlockRange
    receipts: Mapping[str, Receipt]


@dataclass(frozen=True)
class StateRows(LoadedState):
    """The tables of the newest segment's current state, as of its end, by name."""

    _con: Connection
    _proof: Connection
    _writing: Lock = field(default_factory=Lock)

    def write(self, table: str, scratch: Path) -> WrittenFile:
        """Write a table whole; see `write_file`."""
        with self._writing:
            query = partial(file_rows, table, rows=f"main.{quote_name(table)}")
            return write_file(self._con, self._proof, query, self.receipts[table], scratch)


def loaded_state(backing: Backing) -> LoadedState | None:
    """The newest current state that is loaded; None where there is none.

    Nothing is changed. Raises `IntegrityError` where it cannot be read.
    """
    snapshot = backing.log.newest()
    states = snapshot.states() if snapshot else []
    if not states:
        return None
    volume = states[-1]
    try:
        with (
            backing.files.hold([volume.file]),
            read_only_connection(backing.files.path(volume.file), threads=1) as con,
        ):
            receipts = read_receipts(con, "from strata.receipts", {})
    except Error as error:
        place = backing.store.describe(volume.key)
        raise IntegrityError(f"{place} cannot be read: {error}") from error
    return LoadedState(volume.blocks, {receipt.table: receipt for receipt in receipts})


@contextmanager
def state_rows(warehouse: Warehouse) -> Iterator[StateRows | None]:
    """Open the newest current state; None where there is none."""
    catalog = warehouse.catalog()
    states = catalog.intact().states() if catalog else []
    if not states:
        yield None
        return
    volume, backing = states[-1], warehouse.backing
    files, memory_limit = backing.files, backing.memory_limit
    with (
        files.hold([volume.file]),
        scratch_folder(warehouse.backing.scratch) as scratch,
        read_only_connection(
            files.path(volume.file), threads=1, scratch=scratch, memory_limit=memory_limit
        ) as con,
        lake_reader(scratch, backing.memory_mb, volume.size) as proof,
    ):
        receipts = read_receipts(con, "from strata.receipts", {})
        yield StateRows(volume.blocks, {receipt.table: receipt for receipt in receipts}, con, proof)
