"""A table's Delta log: which files the table is made of.

A commit is one file, which is created for the very version that it follows, so that of two
publishers one is refused, reads again and plans again: nothing is in a table twice, whatever each
had planned. The first one makes the table, and any may add columns.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4
from zlib import crc32

import pyarrow as pa

from exporters.archive.lake_place import LOG
from exporters.lake.log.log_files import (
    HINT,
    PROTOCOL,
    checkpoint_bytes,
    checkpoint_name,
    commit_bytes,
    commit_name,
    listed_files,
    outdated,
    parsed_files,
)
from exporters.lake.log.table_version import (
    KEPT_HOURS,
    SKIPPING,
    TOLD_SECONDS,
    Action,
    ActiveFile,
    TableVersion,
)
from exporters.lake.log.version_cache import CachedVersion, VersionCache
from transforms.errors import IntegrityError
from transforms.lake.statistics import fitted
from transforms.objects import ObjectInfo
from transforms.stores.store import LostRaceError, Store
from transforms.tables.file_columns import RECEIPT_LIST, TEXTS, FileColumn
from transforms.warehouse.manifests.manifest_rows import RECEIPTS

# A bucket is asked for each commit after the last checkpoint, whenever a table is opened.
_COMMITS = 10
_CONFIGURATION = {
    # Others forget by their clock when files were removed, which may be days ahead.
    "delta.deletedFileRetentionDuration": f"interval {2 * KEPT_HOURS} hours",
    "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.checkpointInterval": str(_COMMITS),
}


def _field(name: str, kind: object) -> Action:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


_NESTED = {
    TEXTS: {
        "type": "map",
        "keyType": "string",
        "valueType": "string",
        "valueContainsNull": True,
    },
    RECEIPT_LIST: {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [
                _field(field.name, "long" if pa.types.is_integer(field.type) else "string")
                for field in RECEIPTS
            ],
        },
        "containsNull": True,
    },
}
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
        self._infos: Sequence[ObjectInfo] = ()

    def newest(self) -> TableVersion | None:
        """The newest version, read from the log; None where there is no table.

        Raises `IntegrityError` where the log is damaged.
        """
        try:
            return self._read()
        except IntegrityError:  # a file that another writer tidied away after it was listed
            return self._read()

    def _read(self) -> TableVersion | None:
        try:
            return parsed_files(listed_files(self._store, self._log))
        except IntegrityError as error:
            raise IntegrityError(
                f"the log of {self.place} is damaged: put its folder {LOG} back from a backup, or "
                f"remove it, and strata publish makes it anew; {error}"
            ) from error

    def expected(self) -> TableVersion | None:
        """The version upon which a commit of this machine is tried first, at one request.

        The one that it knows last, if the log still has it; else the newest, which is kept. Until
        another writer is met this object asks no more.
        """
        if self._expected is None:
            self._expected = self._known()
        if self._expected is None:
            self._expected = self.newest()
            if self._cache and self._expected and (state := self._state(self._expected.number)):
                self._cache.write(self._table, self._expected, state)
        return self._expected

    def listed(self, infos: Iterable[ObjectInfo]) -> TableVersion | None:
        """The newest version, where a listing of the table is at hand.

        It is read only if the log does not end as this machine left it.
        """
        self.expect(infos)
        return self._expected or self.newest()

    def expect(self, infos: Iterable[ObjectInfo]) -> None:
        """Expect the version that this machine knows last, if a listing ends with its commit."""
        self._infos = [info for info in infos if info.key.startswith(f"{self._log}/")]
        commits = {info.key: info.version for info in self._infos if info.key.endswith(".json")}
        entry, self._expected = self._cached(), None
        if entry is not None and commits:
            key = self._commit_key(entry.version.number)
            if max(commits) == key and commits[key] == entry.state:
                self._expected = entry.version

    def _cached(self) -> CachedVersion | None:
        return self._cache.read(self._table) if self._cache else None

    def _known(self) -> TableVersion | None:
        entry = self._cached()
        if entry is None or self._state(entry.version.number) != entry.state:
            return None
        return entry.version

    def forget(self) -> None:
        """Expect nothing any more: the newest version is read when it is asked for."""
        self._expected = None
        if self._cache is not None:
            self._cache.forget(self._table)

    def _state(self, version: int) -> str:
        """The store's own version of the file of a commit; empty where it is not there."""
        info = self._store.head(self._commit_key(version))
        return info.version if info else ""

    def _commit_key(self, version: int) -> str:
        return f"{self._log}/{commit_name(version)}"

    def commit(
        self,
        base: TableVersion | None,
        added: Sequence[ActiveFile],
        removed: Sequence[ActiveFile] = (),
        columns: Sequence[FileColumn] = (),
    ) -> TableVersion:
        """Name files and name others no longer, in one version after `base`: the result.

        Without `base` that makes the table. `columns` are new ones, NULL in the files that are
        there. Raises `LostRaceError` where somebody else committed since `base` was read.
        """
        base = base or TableVersion()
        # The store's clock says later how long ago a file was removed.
        now = int((self._store.now() if removed else time.time()) * 1000)
        actions = [*self._actions(base, added, removed, columns, now)]
        data = commit_bytes(now, actions)
        following = base.following(base.number + 1, actions)
        key = self._commit_key(following.number)
        try:
            state = self._store.put_if_match(key, data, None, "application/json")
        except LostRaceError as error:
            self.forget()
            raise LostRaceError(f"{self.place} was changed by another writer: {error}") from error
        # Not all tables at once: a run should cost what the one before did.
        if following.number and (following.number + crc32(self._table.encode())) % _COMMITS == 0:
            following = self._sum_up(following)
        self._expected = following
        if self._cache is not None:
            self._cache.write(self._table, following, state)
        return following

    def _actions(
        self,
        base: TableVersion,
        added: Sequence[ActiveFile],
        removed: Sequence[ActiveFile],
        columns: Sequence[FileColumn],
        now: int,
    ) -> Iterator[Action]:
        """The actions of a commit upon a version, as Delta's protocol has them; `now` is in ms."""
        metadata = base.metadata
        if base.number < 0:
            yield {"protocol": PROTOCOL}
            metadata = _new_metadata(self._table, now)
        if columns or base.number < 0:
            metadata = _with_columns(metadata, base, columns)
            yield {"metaData": metadata}
        described = TableVersion(metadata=metadata).statistics_of
        for old in removed:
            yield {"remove": old.removed(now)}
        for new in added:
            action = new.added(now)
            yield {"add": {**action, "stats": fitted(new.statistics, sorted(described))}}

    def _sum_up(self, version: TableVersion) -> TableVersion:
        """Write a checkpoint of a version, and forget what is older than a week; what is left.

        Without it all is right as well.
        """
        now, folder = self._store.now(), self._log
        version = version.since(now - TOLD_SECONDS)
        data, hint = checkpoint_bytes(version)
        kinds = {"parquet": "application/vnd.apache.parquet", "": "application/json"}
        try:
            listing = self._infos or self._store.list(f"{folder}/")
            infos = {info.key.rpartition("/")[2]: info for info in listing}
            self._infos = ()  # the checkpoint is not among them
            for name, content in ((checkpoint_name(version.number), data), (HINT, hint)):
                before = infos[name].version if name in infos else None
                kind = kinds[name.partition(".checkpoint.")[2]]
                self._store.put_if_match(f"{folder}/{name}", content, before, kind)
            times = {name: info.modified for name, info in infos.items()}
            for name in outdated(times, now - KEPT_HOURS * 3600):
                self._store.delete(f"{folder}/{name}")
        except (LostRaceError, OSError) as error:
            _log.info("the log of %s was not summed up: %s", self.place, error)
        return version

    @property
    def place(self) -> str:
        """Its full address, for a person."""
        return self._store.describe(self._key)


def _new_metadata(table: str, now: int) -> Action:
    return {
        "id": str(uuid4()),
        "name": table,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": []}),
        "partitionColumns": [],
        "configuration": _CONFIGURATION,
        "createdTime": now,
    }


def _with_columns(metadata: Action, base: TableVersion, columns: Sequence[FileColumn]) -> Action:
    """Metadata with more columns.

    They have statistics only where the files before have no rows: of others nothing is said of the
    new columns, and deltalake's data sets for pyarrow then skip them whatever is asked.
    """
    described = base.statistics_of
    if not any(file.rows for file in base.files):
        described |= {column.name for column in columns if column.has_statistics}
    added = (_field(column.name, _NESTED.get(column.type, column.type)) for column in columns)
    fields: list[Any] = [*base.fields, *added]
    return {
        **metadata,
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "configuration": {**metadata["configuration"], SKIPPING: ",".join(sorted(described))},
    }
