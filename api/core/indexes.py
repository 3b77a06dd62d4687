"""The index files that a process may ask: what two snapshots name is one file, opened once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from transforms.lookups.index_file import IndexConnections, IndexFile
from transforms.objects import StoredFile
from transforms.warehouse.files.catalog import Catalog


class Indexes:
    """The index files of the newest snapshots."""

    def __init__(self) -> None:
        self._connections = IndexConnections()
        self._indexes: dict[StoredFile, IndexFile] = {}

    def of(self, catalog: Catalog) -> Mapping[str, IndexFile]:
        """The index files of a snapshot, whose files are here, by the key of their volume."""
        return {
            volume.key: self._indexes.setdefault(
                volume.index, IndexFile(catalog.files.path(volume.index), self._connections)
            )
            for volume in catalog.snapshot.volumes
            if volume.index
        }

    def passing(self) -> AbstractContextManager[None]:
        """For the length of a block that asks all files, one after the other."""
        return self._connections.passing(len(self._indexes))

    def keep(self, catalog: Catalog | None) -> None:
        """Let go of the files that a snapshot, which is the newest, does not name; None: of all."""
        named = {*catalog.snapshot.indexes()} if catalog else set()
        for file in self._indexes.keys() - named:
            self._indexes.pop(file).close()
        self._connections.keep({index.path for index in self._indexes.values()})
