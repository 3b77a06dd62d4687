"""One table of the lake: what lies in its folder, its newest version, and commits upon that.

A commit is one file, which is created for the very version that it follows, so that of two
publishers one is refused, reads again and plans again: nothing is in a table twice, whatever each
had planned. The first one makes the table, and any may add columns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pyarrow.parquet as pq

from exporters.archive.lake_place import LOG
from exporters.lake.log.log_files import (
    HINT,
    PROTOCOL,
    checkpoint_bytes,
    checkpoint_name,
    commit_bytes,
    commit_name,
    last_commit,
    outdated,
    parsed_files,
    read_log,
)
from exporters.lake.log.table_schema import COMMITS, KEPT_HOURS, new_columns, table_metadata
from exporters.lake.log.table_version import (
    Action,
    ActiveFile,
    TableVersion,
    parsed_name,
    removed_file,
)
from transforms.errors import ConflictError, IntegrityError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.sealed import read_sealed, seal
from transforms.stores.store import (
    LostRaceError,
    Store,
    content_sha256,
    content_size,
    folder_infos,
)
from transforms.tables.registry import fold_case

_PARQUET, _JSON = "application/vnd.apache.parquet", "application/json"
_RETRIES = 2
_logger = logging.getLogger(__name__)


class LakeTable:
    """A table of a lake, as it was when it was looked at, and after one's own commits.

    `infos` are what was listed in its folder, by the path below that. Who only reads it need not
    look: its log is read by the names of its files, as web servers give no lists. `log` are those
    that were read.
    """

    def __init__(self, store: Store, key: str, cache: Path | None = None) -> None:
        """`cache` is the folder where this machine keeps the version that it knows.

        To read a log takes a dozen requests, and says nothing new as long as a listing ends with
        the commit of that version.
        """
        self.name = key.rpartition("/")[2]
        self.infos: Mapping[str, ObjectInfo] = {}
        self.log: Mapping[str, bytes] = {}
        self._store = store
        self._key = key
        self._cache = cache / f"{self.name}.json" if cache else None
        self._is_listed = False
        self._version: TableVersion | None = None

    def key(self, path: str) -> str:
        """The object's key of what lies in its folder."""
        return f"{self._key}/{path}"

    def place(self, path: str = "") -> str:
        """Its full address, or that of what lies in its folder, for a person."""
        return self._store.describe(self.key(path).rstrip("/"))

    def look(self, infos: Iterable[ObjectInfo] | None = None) -> None:
        """See how it is now; `infos` are what lies in its folder, if that is listed already."""
        infos = folder_infos(self._store, self._key) if infos is None else infos
        self.infos = {info.key.removeprefix(self.key("")): info for info in infos}
        self._is_listed, self._version = True, None

    @property
    def files(self) -> tuple[ActiveFile, ...]:
        """The files of the newest version, ascending by block; see `version`."""
        return self.version().files

    @property
    def history(self) -> list[ActiveFile]:
        """Those of history."""
        return [file for file in self.files if not file.csv]

    def version(self) -> TableVersion:
        """The newest version, which is read once; that of no table where there is none.

        Raises `IntegrityError` where its log is damaged, or others wrote to it.
        """
        if self._version is None:
            self._version = self._read()
        return self._version

    def _read(self) -> TableVersion:
        last = newest = None
        if self._is_listed:
            names = [path.removeprefix(f"{LOG}/") for path in self.infos if path.startswith(LOG)]
            if not names:
                return TableVersion()
            last = last_commit(names)
            newest = self.infos.get(f"{LOG}/{commit_name(last)}")
        row = read_sealed(self._cache) if newest and self._cache else {}
        if newest and row.get("state") == newest.version:
            return TableVersion().following(row["number"], row["actions"])
        try:
            self.log = read_log(self._store, self.key(LOG), last)
            version = parsed_files(self.log)
        except IntegrityError as error:
            raise IntegrityError(
                f"the log of {self.place()} is damaged: its keeper should put its folder {LOG} "
                "back from a backup, or remove it: strata publish makes it anew then; "
                f"{error}"
            ) from error
        if newest and version.number == last:
            self._keep(version, newest.version)
        return version

    def _keep(self, version: TableVersion, state: str) -> None:
        """Keep a version, with the store's own version of the file of its commit."""
        if self._cache is not None:  # a loss of power may lose it: then the log is read again
            with new_file(self._cache, durable=False) as file:
                actions = [*version.actions()]
                file.write(seal({"state": state, "number": version.number, "actions": actions}))

    def sweep(self, oldest: float) -> None:
        """Remove files of ours that no version has named since a time."""
        if self._unnamed(oldest):
            self.look()  # what a killed publisher left may have been taken up meanwhile
            removed = self._unnamed(oldest)
            for path in removed:
                self._store.delete(self.key(path))
            self.infos = {path: self.infos[path] for path in self.infos.keys() - removed}

    def _unnamed(self, oldest: float) -> list[str]:
        """The files of ours that no version has named since a time; none where there is no log."""
        version = self.version()
        return [
            name
            for name, info in self.infos.items()
            if version.number >= 0 and parsed_name(name) and name not in version.by_name
            if max(version.removed.get(name, 0) / 1000, info.modified) <= oldest
        ]

    def fetch(self, file: ActiveFile, folder: Path) -> Path:
        """A copy of a file in a folder, fetched again where other bytes arrived, or too few.

        Raises `IntegrityError` where it is gone, or not what its name says.
        """
        path = folder / f"{self.name}-{file.name}"
        for _ in range(_RETRIES):
            with suppress(ConnectionError, IntegrityError):
                return self._fetch(file, path)
        return self._fetch(file, path)

    def _fetch(self, file: ActiveFile, path: Path) -> Path:
        place, remedy = self.place(file.name), "strata verify says what mends it"
        try:
            self._store.fetch(self.key(file.name), path)
        except FileNotFoundError as error:
            raise IntegrityError(f"{place} is gone, and a log names it: {remedy}") from error
        digest = content_sha256(path)
        if not file.is_of(digest):
            what = f"hashes to {digest}, which is not what its name says"
            raise IntegrityError(f"{place} {what}: {remedy}")
        return path

    def put(
        self,
        base: TableVersion,
        new: Iterable[tuple[Path, str]],
        removed: Sequence[ActiveFile] = (),
    ) -> None:
        """Put files there, and name them, and others no longer, in one version after `base`.

        A new one comes with its SHA-256; it has the name of the table's, and may be moved. Raises
        `ConflictError` where a column has another type or spelling than the table's, and what
        `commit` does.
        """
        known: dict[str, Action] = {fold_case(field["name"]): field for field in base.fields}
        columns: list[Action] = []
        added = []
        for path, sha256 in new:
            metadata = pq.read_metadata(path)
            own = metadata.schema.to_arrow_schema()
            columns += new_columns(self.name, self.place(), own, known)
            size = content_size(path)
            self._put_file(base, path, sha256)
            added.append(ActiveFile(path.name, size, metadata.num_rows, tuple(own.names)))
        self.commit(base, added, removed, columns)

    def _put_file(self, base: TableVersion, path: Path, sha256: str) -> None:
        """Put a file there, also in the place of a damaged one that no version names.

        Its name has its hash, so that what lies there with other bytes is not what it was.
        """
        key = self.key(path.name)
        try:
            self._store.put_if_absent(
                key, path, content_type=_PARQUET, sha256=sha256, immutable=True, take=True
            )
        except ConflictError:
            info = self._store.head(key)
            if path.name in base.by_name or info is None:
                raise
            self._store.put_if_match(key, path, info.version, _PARQUET, sha256=sha256)

    def commit(
        self,
        base: TableVersion,
        added: Sequence[ActiveFile],
        removed: Sequence[ActiveFile] = (),
        columns: Sequence[Action] = (),
    ) -> None:
        """Name files that are there, and others no longer, in one version after `base`.

        `columns` are new ones. Raises `LostRaceError` where somebody else committed since `base`.
        """
        # The store's clock says later how long ago a file was removed.
        now = int((self._store.now() if removed else time.time()) * 1000)
        actions: list[Action] = [{"protocol": PROTOCOL}] if base.number < 0 else []
        if columns:
            actions.append({"metaData": table_metadata(self.name, base, columns)})
        actions += ({"remove": removed_file(file.name, now)} for file in removed)
        actions += ({"add": file.added(now)} for file in added)
        version = base.following(base.number + 1, actions)
        key = self.key(f"{LOG}/{commit_name(version.number)}")
        try:
            state = self._store.put_if_match(key, commit_bytes(now, actions), None, _JSON)
        except LostRaceError as error:
            self.look()
            raise LostRaceError(f"{self.place()} was changed by another writer: {error}") from error
        # Not all tables at once: a run should cost what the one before did.
        if version.number and (version.number + crc32(self.name.encode())) % COMMITS == 0:
            version = self._sum_up(version)
        self._version = version
        self._keep(version, state)

    def _sum_up(self, version: TableVersion) -> TableVersion:
        """Write a checkpoint of a version, and forget what is older than a week; what is left.

        Without it all is right as well.
        """
        oldest = self._store.now() - KEPT_HOURS * 3600
        removed = version.removed.items()
        recent = {name: time for name, time in removed if time >= oldest * 1000}
        version = replace(version, removed=recent)
        data, hint = checkpoint_bytes(version)
        files = ((checkpoint_name(version.number), data, _PARQUET), (HINT, hint, _JSON))
        log = self.key(f"{LOG}/")
        try:
            infos = {info.key.removeprefix(log): info for info in self._store.list(log)}
            for name, content, kind in files:
                before = infos[name].version if name in infos else None
                self._store.put_if_match(f"{log}{name}", content, before, kind)
            for name in outdated(infos, oldest):
                self._store.delete(f"{log}{name}")
        except (LostRaceError, OSError) as error:
            _logger.info("the log of %s was not summed up: %s", self.place(), error)
        return version
