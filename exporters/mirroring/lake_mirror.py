"""The lake of a mirror: data files and logs as the archive has them, to the byte.

Logs are read before the index of ZIPs is, as the archive's lake never has what has no ZIPs; their
files are fetched after the ZIPs, and stay in the archive for a week. A table's log takes the place
of the mirror's own as a whole, once the files that it names are there: a killed mirror has an
earlier table or, until it is run again, none of that name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Json
from exporters.archive.json_text import parsed
from exporters.archive.lake_place import LOG, MANIFESTS, STATE_MANIFEST
from exporters.archive.sound_documents import SCHEMA
from exporters.fetching.fetch_folder import JOBS, Advance, FetchFolder, Progress, no_progress
from exporters.fetching.mirror import Mirrored
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.publication.lake_sweep import sweep_lake
from exporters.lake.published_files import log_files, log_version, retried
from transforms.errors import IntegrityError
from transforms.files import commit_file, file_version, new_file, sync_file
from transforms.stores.store import content_sha256
from transforms.tables.registry import tables_ever
from transforms.verifying.proofs import Proof

_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as its log was read: the files of that, and those that it names."""

    name: str
    log: Mapping[str, bytes]
    files: tuple[ActiveFile, ...]


@dataclass
class LakeMirror:
    """What the lake of an archive has, as it was read, for the mirror that `copy` brings it to.

    `refused` says why tables are left as the mirror has them.
    """

    source: Archive
    jobs: int = JOBS
    progress: Progress = no_progress
    refused: list[str] = field(default_factory=list)
    _tables: list[_Table] = field(default_factory=list, init=False)

    def read(self) -> None:
        """Read the logs: that of the manifests first, since what is in one is in the tables."""
        names = sorted({*tables_ever(), STATE_MANIFEST, *self._described()} - {MANIFESTS})
        manifests = self._read_table(MANIFESTS)
        if manifests is None:
            return
        with ThreadPoolExecutor(self.jobs) as pool:
            tables = [*pool.map(self._read_table, names), manifests]
        self._tables = [table for table in tables if table]

    def _described(self) -> Iterable[str]:
        """The tables that the archive's release knows, which may be a newer one."""
        data = self.source.read(SCHEMA)
        with suppress(IntegrityError):  # who copies the documents says what is wrong with one
            if data is not None:
                return parsed(data, self.source.place(SCHEMA), _names)
        return ()

    def _read_table(self, name: str) -> _Table | None:
        lake = Lake(self.source)
        try:
            log = log_files(lake, name)
            version = log_version(lake, name, log)
            return _Table(name, log, version.files) if version else None
        except IntegrityError as error:
            self.refused.append(str(error))
            return None

    def copy(self, folder: FetchFolder, result: Mirrored) -> None:
        """Fetch what the mirror lacks of it, each table alone, and sweep what no table names."""
        if not self._tables:
            return
        copies = _Copies(self.source, folder, self.jobs, result)
        lacking = {table.name: copies.lacking(table) for table in self._tables}
        total = sum(file.bytes for files in lacking.values() for file in files)
        with self.progress("fetching the lake", total) as advance:
            for table in self._tables:
                # The manifests come last, and tell what all tables have: not if one lacks it.
                if table.name != MANIFESTS or not self.refused:
                    self._alone(partial(copies.table, table, lacking[table.name], advance))
        self.refused += (f"{item.table}: {item.reason}" for item in sweep_lake(copies.own).refused)
        result.lake_refused = self.refused

    def _alone(self, work: Callable[[], None]) -> None:
        try:
            work()
        except IntegrityError as error:
            self.refused.append(str(error))


def _names(schema: Json) -> list[str]:
    """The tables of a schema document."""
    names = (str(table["name"]) for table in schema["tables"])
    return [name for name in names if _TABLE_NAME.fullmatch(name)]


@dataclass(frozen=True)
class _Copies:
    """Fetches files of a lake into the folder of a mirror."""

    source: Archive
    folder: FetchFolder
    jobs: int
    result: Mirrored

    @property
    def own(self) -> Lake:
        """The mirror's lake."""
        return Lake(Archive(self.folder.store, self.source.chain_id))

    def lacking(self, table: _Table) -> list[ActiveFile]:
        """The files of a table that are not there, or not what their names say."""
        return [file for file in table.files if not self._is_there(table.name, file)]

    def _is_there(self, table: str, file: ActiveFile) -> bool:
        path = self._path(table, file.name)
        try:
            proof = _proof(path, file)
        except FileNotFoundError:
            return False
        if self.folder.proofs.has(proof):
            return True
        is_right = file.is_of(content_sha256(path))
        if is_right:
            self.folder.proofs.keep(proof)
        return is_right

    def _path(self, table: str, name: str) -> Path:
        return self.folder.store.path(self.own.key(table, name))

    def table(self, table: _Table, lacking: list[ActiveFile], advance: Advance) -> None:
        """Have the files of a table, then its log. Raises `IntegrityError`."""
        with ThreadPoolExecutor(self.jobs) as pool:
            for file in pool.map(partial(self._fetch, table.name), lacking):
                self._count(file.bytes)
                advance(file.bytes)
        self._replace_log(table)

    def _fetch(self, table: str, file: ActiveFile) -> ActiveFile:
        path = self.folder.scratch / f"{table}-{file.name}"
        retried(partial(Lake(self.source).fetch, table, file, path))
        place = self._path(table, file.name)
        commit_file(path, place)
        self.folder.proofs.keep(_proof(place, file))  # it was hashed on its way
        return file

    def _replace_log(self, table: _Table) -> None:
        place = self._path(table.name, LOG)
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

    def _count(self, size: int) -> None:
        self.result.lake_files += 1
        self.result.lake_bytes += size


def _proof(path: Path, file: ActiveFile) -> Proof:
    """That a file, as it is now, is what its name says."""
    return Proof(str(path), file_version(path.stat()), file.name)
