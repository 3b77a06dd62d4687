"""The index files of snapshots: what of them can be asked, and what is answered around.

An index file that is missing or damaged refuses no request: DuckDB finds the same rows in the data
files, slower. The log says so, and what makes the file again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from api.core.relations import REMEDY
from transforms.errors import IntegrityError
from transforms.files import path_version
from transforms.lookups.index_file import IndexConnections, IndexFile
from transforms.objects import StoredFile
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.lost_files import absent_files, unreadable_files
from transforms.warehouse.warehouse import Warehouse

_log = logging.getLogger(__name__)


class Indexes:
    """The index files that a process may ask; those of two snapshots are the same."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._store = warehouse.backing.store
        self._connections = IndexConnections()
        self._indexes: dict[StoredFile, IndexFile] = {}
        self._first: dict[Path, str] = {}
        self._hashed: dict[Path, str] = {}

    def open(self, catalog: Catalog, lease: ExitStack) -> Mapping[str, IndexFile]:
        """The index files of a snapshot by the key of their volume, which `lease` keeps here."""
        files = {volume.key: volume.index for volume in catalog.volumes if volume.index}
        lost: Mapping[StoredFile, str] = {}
        try:
            lease.enter_context(catalog.files.hold(files.values()))
        except (FileNotFoundError, IntegrityError):
            lost = unreadable_files(self._store, catalog.files, files.values(), recheck=False)
            lease.enter_context(catalog.files.hold({*files.values()} - {*lost}))
        for file in files.values():
            if file not in self._indexes:
                path = catalog.files.path(file)
                self._indexes[file] = IndexFile(path, self._connections)
                self._first[path] = path_version(path)
        for file, problem in lost.items():
            self._lose(file, problem)
        return {key: self._indexes[file] for key, file in files.items()}

    def examine(self, catalog: Catalog) -> None:
        """Answer around those that are lost by now, and ask those again that are sound by now.

        What was written to, or could not be read, is hashed, once.
        """
        named = [file for file in catalog.snapshot.indexes() if file in self._indexes]
        absent = absent_files(self._store, named)
        for file in named:
            index = self._indexes[file]
            if file in absent:
                self._hashed.pop(index.path, None)
                self._lose(file, absent[file])
                continue
            version = path_version(index.path)
            is_first = index.is_sound and version == self._first[index.path]
            if is_first or version == self._hashed.get(index.path):
                continue
            lost = unreadable_files(self._store, catalog.files, [file], recheck=True)
            self._hashed[index.path] = path_version(index.path)
            index.close()
            if file in lost:
                self._lose(file, lost[file])
            else:
                index.is_sound = True

    def _lose(self, file: StoredFile, problem: str) -> None:
        index = self._indexes[file]
        if index.is_sound:
            _log.error("%s %s: %s", self._store.describe(file.key), problem, REMEDY)
        index.is_sound = False
        index.close()

    def keep(self, catalog: Catalog) -> None:
        """Let go of the files that a snapshot, which is the newest, does not name."""
        named = {*catalog.snapshot.indexes()}
        for file in [*self._indexes]:
            if file not in named:
                index = self._indexes.pop(file)
                index.close()
                self._hashed.pop(index.path, None)
        self._connections.keep({catalog.files.path(file) for file in named})

    def close(self) -> None:
        """Let go of all."""
        self._connections.keep()
