"""What the lake's tables of history are made of: a warehouse's volumes and their data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.lake.parquet_files import WrittenFile, lake_reader, link, linked_file
from transforms.scratch import scratch_folder
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.local_files import LocalFiles
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
