"""A table's Delta log: which files the table is made of.

deltalake makes and reads tables (`delta_table`). A commit is one file, which is created for the
very version that it follows, so that of two publishers one is refused, reads again and plans again:
nothing is in a table twice, whatever each had planned. It carries a number of the transaction
`strata`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from zlib import crc32

from exporters.archive.lake_place import LOG
from exporters.lake.log.stored_log import StoredLog, read_stored
from exporters.lake.log.table_version import (
    VERSIONS_PER_CHECKPOINT,
    ActiveFile,
    AddedFile,
    TableVersion,
)
from exporters.lake.log.version_cache import VersionCache
from transforms.errors import ConfigError, IntegrityError
from transforms.lake.statistics import fitted
from transforms.objects import ObjectInfo
from transforms.stores.store import LostRaceError, Store
from transforms.tables.file_columns import FileColumn

if TYPE_CHECKING:
    from exporters.lake.log.delta_table import StoredTable

_APP = "strata"
_log = logging.getLogger(__name__)


class DeltaLog:
    """The log of the table below `key` in a store. Nothing is read until it is asked."""

    def __init__(
        self, store: Store, key: str, table: str, cache: VersionCache | None = None
    ) -> None:
        """`cache` is where this machine keeps the version that it read, or committed, last."""
        self._store = store
        self._key = key
        self._log = f"{key}/{LOG}"
        self._table = table
        self._cache = cache
        self._expected: TableVersion | None = None

    def newest(self) -> TableVersion | None:
        """The newest version, read from the log; None where there is no table.

        Raises `IntegrityError` where the log is damaged.
        """
        return self._stored_table.newest()

    def expected(self) -> TableVersion | None:
        """The version upon which a commit of this machine is tried first, at one request.

        The one that it knows last, if the log still has it; else the newest, which is kept. Until
        another writer is met this object asks no more.
        """
        if self._expected is None:
            self._expected = self._known() or self._read()
        return self._expected

    def recent(self) -> TableVersion | None:
        """The version that the log had within the last hour, as far as this machine knows.

        Nothing is asked. Commits of others may have followed.
        """
        entry = self._cache.read(self._table) if self._cache else None
        return entry.version if entry is not None and entry.is_recent else None

    def listed(self, infos: Iterable[ObjectInfo]) -> TableVersion | None:
        """The newest version, where a listing of the table is at hand.

        It is read only if the log does not end as this machine left it.
        """
        commits = {info.key: info.version for info in infos if info.key.endswith(".json")}
        entry = self._cache.read(self._table) if self._cache else None
        if entry is not None and commits:
            key = self._commit_key(entry.version.number)
            if max(commits) == key and commits[key] == entry.state:
                return entry.version
        return self.newest()

    def _known(self) -> TableVersion | None:
        entry = self._cache.read(self._table) if self._cache else None
        if self._cache is None or entry is None:
            return None
        if self._state(entry.version.number) != entry.state:
            return None
        if not entry.is_recent:
            self._cache.write(self._table, entry.version, entry.state, entry.time)
        return entry.version

    def _read(self) -> TableVersion | None:
        version = self.newest()
        if self._cache and version is not None and (state := self._state(version.number)):
            self._cache.write(self._table, version, state)
        return version

    def _forget(self) -> None:
        """Read the log before the next commit: another version follows than was expected."""
        self._expected = None
        if self._cache is not None:
            self._cache.forget(self._table)

    def _state(self, version: int) -> str:
        """The store's own version of the file of a commit; empty where it is not there."""
        info = self._store.head(self._commit_key(version))
        return info.version if info else ""

    def _commit_key(self, version: int) -> str:
        return f"{self._log}/{version:020}.json"

    @cached_property
    def _stored_table(self) -> StoredTable:
        # Who knows the newest version need not import deltalake.
        from exporters.lake.log.delta_table import StoredTable

        return StoredTable(self._store, self._key, self._table)

    def create(self, columns: Iterable[FileColumn]) -> TableVersion:
        """Make the table if it is not there, and read it."""
        return self._stored_table.create(columns)

    def add_columns(self, base: TableVersion, columns: Sequence[FileColumn]) -> TableVersion:
        """Add columns that the table lacks; see `StoredTable.add_columns`."""
        self._forget()
        return self._stored_table.add_columns(base, columns)

    def commit(
        self,
        base: TableVersion,
        added: Sequence[AddedFile],
        removed: Sequence[ActiveFile] = (),
        *,
        changes_data: bool = True,
    ) -> TableVersion:
        """Name files and name others no longer, in one version after that of `base`: the result.

        `changes_data` is False where the rows stay what they were. Raises `LostRaceError` where
        somebody else committed since `base` was read.
        """
        # The store's clock says later how long ago a file was removed.
        now = int((self._store.now() if removed else time.time()) * 1000)
        actions = _actions(base, added, removed, now, changes_data=changes_data)
        data = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
        key = self._commit_key(base.number + 1)
        try:
            state = self._store.put_if_match(key, data.encode(), None, "application/json")
        except LostRaceError as error:
            self._forget()
            raise LostRaceError(f"{self.place} was changed by another writer: {error}") from error
        self._expected = following = base.following(added, removed)
        if self._cache is not None:
            self._cache.write(self._table, following, state)
        # Not all tables at once: a run should cost what the one before did.
        if (following.number + crc32(self._table.encode())) % VERSIONS_PER_CHECKPOINT == 0:
            self._checkpoint(following.number)
        return following

    def _checkpoint(self, version: int) -> None:
        """Sum the log up, and forget what is older than a week; without it all is right as well."""
        try:
            self._stored_table.sum_up(version)
        except (ConfigError, IntegrityError, OSError) as error:
            _log.warning("the log of %s was not summed up: %s", self.place, error)

    def stored(self, version: TableVersion) -> StoredLog:
        """What the log's own files say up to a version, read without deltalake.

        That shows only the statistics of columns it is told of; other readers use whatever is
        there. Raises `IntegrityError` where a file of the log is damaged or lacks.
        """
        return read_stored(self._store, self._log, version.number)

    @property
    def place(self) -> str:
        """Its full address, for a person."""
        return self._store.describe(self._key)


def _actions(
    base: TableVersion,
    added: Sequence[AddedFile],
    removed: Sequence[ActiveFile],
    now: int,
    *,
    changes_data: bool,
) -> Iterator[Mapping[str, Any]]:
    """The actions of a commit upon a version, as Delta's protocol has them; `now` is in ms."""
    operation = "WRITE" if changes_data else "OPTIMIZE"
    # No two commits have the same bytes: who finds another one there must not take it for its own.
    yield {"commitInfo": {"timestamp": now, "operation": operation, "txnId": uuid4().hex}}
    yield {"txn": {"appId": _APP, "version": base.number + 1, "lastUpdated": now}}
    for file in removed:
        yield {
            "remove": {
                "path": file.name,
                "deletionTimestamp": now,
                "dataChange": changes_data,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": file.bytes,
            }
        }
    described = sorted(base.statistics_of)
    for new in added:
        yield {
            "add": {
                "path": new.name,
                "partitionValues": {},
                "size": new.bytes,
                "modificationTime": now,
                "dataChange": changes_data,
                "stats": fitted(new.statistics, described),
            }
        }
