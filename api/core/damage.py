"""Files of the warehouse that are lost or damaged: which they are, and what clients are told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from transforms.errors import IntegrityError
from transforms.files import path_version
from transforms.objects import ObjectInfo, StoredFile
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.lost_files import (
    DAMAGED,
    LostFilesError,
    absent_files,
    unreadable_files,
)
from transforms.warehouse.log.log import snapshot_key
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.warehouse import Warehouse

Losses = Mapping[StoredFile, str]
"""The lost files, with what is wrong with each."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Why no rows are served: a sentence that names no folder of the server, and how many files."""

    sentence: str
    files: int = 1


@dataclass(frozen=True, slots=True)
class DamageReport:
    """The files that are damaged; whether a damaged copy of a bucket's file was replaced."""

    losses: Losses
    has_new_copies: bool


class LostFiles:
    """Finds the lost files of a snapshot; remembers those that have other bytes than before."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._store = warehouse.backing.store
        self._log = warehouse.backing.log
        self._damaged: dict[StoredFile, tuple[str, ObjectInfo | None]] = {}
        self._sound: set[tuple[Path, str]] = set()
        self._first: dict[Path, str] = {}

    def of(self, catalog: Catalog) -> Losses:
        """The files that are absent, or were found damaged and have not changed since."""
        files = catalog.snapshot.readable()
        lost = absent_files(self._store, files) | self._damaged_snapshot(catalog)
        self._damaged = {
            file: (problem, info)
            for file, (problem, info) in self._damaged.items()
            if file in files and self._store.head(file.key) == info
        }
        return {file: problem for file, (problem, _) in self._damaged.items()} | lost

    def _damaged_snapshot(self, catalog: Catalog) -> dict[StoredFile, str]:
        """The snapshot's own file in the log, if it is not what was read once."""
        try:
            self._log.read(catalog.snapshot.number)
        except IntegrityError:
            return {StoredFile(snapshot_key(catalog.snapshot.number), 0, ""): DAMAGED}
        except FileNotFoundError:  # it was followed, and removed after a while
            pass
        return {}

    def examine_written(self, catalog: Catalog) -> DamageReport:
        """Examine the files that were written to since they were seen first, all manifests once.

        Data files are too large to be hashed for nothing.
        """
        manifests = {*catalog.snapshot.manifests()}
        paths = []
        for file in catalog.snapshot.readable():
            path = catalog.files.path(file)
            version = path_version(path)
            first = self._first.setdefault(path, "" if file in manifests else version)
            if version not in ("", first):
                paths.append(path)
        return self.examine(catalog, paths)

    def examine(self, catalog: Catalog, paths: Collection[Path]) -> DamageReport:
        """Hash files of which reading failed; what is found damaged counts as lost.

        A damaged copy of a bucket's file is fetched anew.
        """
        before = _versions(paths)
        doubtful = {path for path, _ in before - self._sound}
        snapshot = catalog.snapshot
        files = [file for file in snapshot.readable() if catalog.files.path(file) in doubtful]
        losses = self._found(unreadable_files(self._store, catalog.files, files, recheck=True))
        after = _versions(paths)
        lost = {catalog.files.path(file) for file in losses}
        self._sound |= {(path, version) for path, version in after if path not in lost}
        return DamageReport(losses, has_new_copies=not after <= before)

    def examine_all(self, catalog: Catalog) -> DamageReport:
        """Fetch every file that is not here, and hash the manifests, which are small."""
        snapshot, files = catalog.snapshot, catalog.files
        problems = unreadable_files(self._store, files, snapshot.readable(), recheck=False)
        problems |= unreadable_files(self._store, files, snapshot.manifests(), recheck=True)
        return DamageReport(self._found(problems), has_new_copies=False)

    def damage(self, error: IntegrityError) -> Damage:
        """What clients are told of an error."""
        place = self._store.describe()
        sentence = str(error).replace(f"{place}/", "").replace(place, "the warehouse")
        return Damage(sentence, error.count if isinstance(error, LostFilesError) else 1)

    def error(self, losses: Losses) -> LostFilesError:
        """The error that says it of lost files."""
        return LostFilesError(self._store, losses)

    def lacking(self, catalog: Catalog) -> LostRowsError | None:
        """The error of a snapshot that lacks what one before it had; None where it does not."""
        losses = catalog.snapshot.losses
        return LostRowsError(self._store.describe(), losses) if losses else None

    def _found(self, losses: Losses) -> Losses:
        infos = {file: (problem, self._store.head(file.key)) for file, problem in losses.items()}
        self._damaged |= infos
        return losses


def _versions(paths: Collection[Path]) -> set[tuple[Path, str]]:
    return {(path, path_version(path)) for path in paths}
