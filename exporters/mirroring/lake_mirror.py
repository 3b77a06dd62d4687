"""The lake of a mirror: data files and logs as the archive has them, to the byte.

Logs are read before the index of ZIPs is, as the archive's lake never has what has no ZIPs; their
files are fetched after the ZIPs, and stay in the archive for a week. A table's log takes the place
of the mirror's own as a whole, once the files that it names are there: a killed mirror has an
earlier table or, until it is run again, none of that name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Json
from exporters.archive.json_text import parsed
from exporters.archive.lake_place import LOG, MANIFESTS, STATE_MANIFEST
from exporters.archive.sound_documents import SCHEMA
from exporters.fetching.fetch_folder import FetchFolder, Progress
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.tables import LakeTable
from transforms.errors import IntegrityError
from transforms.files import commit_file, file_version, new_file, sync_file
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256
from transforms.tables.registry import RESERVED_TABLES, tables_ever
from transforms.verifying.proofs import Proof
from transforms.warehouse.manifests.manifest import manifest_receipts

# What a segment may name a table; documents of an archive may name anything.
_TABLE = re.compile(r"[a-z][a-z0-9_]*")


@dataclass
class LakeMirror:
    """The lake of an archive on its way into the folder of a mirror.

    `files` were fetched; `refused` says why tables are left as the mirror has them.
    """

    source: Archive
    folder: FetchFolder
    jobs: int
    progress: Progress
    files: int = 0
    refused: list[str] = field(default_factory=list)
    _tables: list[LakeTable] = field(default_factory=list, init=False)

    def read(self) -> None:
        """Read the logs: that of the manifests first, since what is in one is in the tables."""
        manifests, names = self._read_table(MANIFESTS), {*tables_ever()}
        if not (manifests or self.refused):
            self.refused.append(
                f"index.json names the lake, and {Lake(self.source).table(MANIFESTS).place(LOG)} "
                "is not there or refused: ask the archive's keeper to show the lake's folders "
                f"{LOG} to everybody"
            )
        state = self._read_table(STATE_MANIFEST)
        with self._refusing():
            names |= {name for name in self._named(state) if _TABLE.fullmatch(name)}
        with ThreadPoolExecutor(self.jobs) as pool:
            tables = pool.map(self._read_table, sorted(names - RESERVED_TABLES))
        self._tables = [table for table in (*tables, state, manifests) if table]

    def _named(self, state: LakeTable | None) -> Iterator[str]:
        """The tables that the archive's release knows, and those of its current state."""
        if (data := self.source.read(SCHEMA)) is not None:
            yield from parsed(data, self.source.place(SCHEMA), _names)
        with scratch_folder(self.folder.scratch) as folder:
            copies = [state.fetch(file, folder) for file in state.files] if state else []
            yield from (receipt.table for receipt in manifest_receipts(copies))

    def _read_table(self, name: str) -> LakeTable | None:
        """A table whose log was read; None where there is none, or it is refused."""
        table = Lake(self.source).table(name)
        try:
            return table if table.version().number >= 0 else None
        except IntegrityError as error:
            self.refused.append(str(error))
            return None

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Let what is damaged be refused."""
        try:
            yield
        except IntegrityError as error:
            self.refused.append(str(error))

    def copy(self) -> None:
        """Fetch what the mirror lacks of it, each table alone, and sweep what no table names."""
        lacking = {
            table.name: [file for file in table.files if not self._is_there(table, file)]
            for table in self._tables
        }
        total = sum(file.bytes for files in lacking.values() for file in files)
        with self.progress("fetching the lake", total) as advance:
            for table in self._tables:
                # The manifests come last, and tell what all tables have: not if one lacks it.
                if table.name == MANIFESTS and self.refused:
                    continue
                with self._refusing(), ThreadPoolExecutor(self.jobs) as pool:
                    for size in pool.map(partial(self._fetch, table), lacking[table.name]):
                        self.files += 1
                        advance(size)
                    self._replace_log(table)
        refused = self._own.sweep().items()
        self.refused += (f"{table}: {reason}" for table, reason in refused)

    @property
    def _own(self) -> Lake:
        """The mirror's lake."""
        return Lake(Archive(self.folder.store, self.source.chain_id))

    def _path(self, table: LakeTable, name: str) -> Path:
        return self.folder.store.path(self._own.table(table.name).key(name))

    def _is_there(self, table: LakeTable, file: ActiveFile) -> bool:
        """Whether a file is there, and what its name says."""
        path = self._path(table, file.name)
        try:
            proof = _proof(path, file)
        except FileNotFoundError:
            return False
        if self.folder.proofs.find(proof.place, proof.state, proof.recorded):
            return True
        is_right = file.is_of(content_sha256(path))
        if is_right:
            self.folder.proofs.keep(proof)
        return is_right

    def _fetch(self, table: LakeTable, file: ActiveFile) -> int:
        place = self._path(table, file.name)
        commit_file(table.fetch(file, self.folder.scratch), place)
        self.folder.proofs.keep(_proof(place, file))  # it was hashed on its way
        return file.bytes

    def _replace_log(self, table: LakeTable) -> None:
        place = self._path(table, LOG)
        there = {path.name: path.read_bytes() for path in place.glob("*") if path.is_file()}
        if there == table.log:
            return
        new, old = (self.folder.scratch / name for name in ("log", "log-before"))
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        for name, data in table.log.items():
            with new_file(new / name) as file:
                file.write(data)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            place.rename(old)
        new.rename(place)
        sync_file(place.parent)
        shutil.rmtree(old, ignore_errors=True)


def _names(schema: Json) -> list[str]:
    """The tables of a schema document."""
    return [str(table["name"]) for table in schema["tables"]]


def _proof(path: Path, file: ActiveFile) -> Proof:
    """That a file, as it is now, is what its name says."""
    return Proof(str(path), file_version(path.stat()), file.name)
