"""A table's Delta log: which files the table is made of. The only module that knows deltalake.

deltalake makes and reads tables. A commit is one file, which is created for the very version that
it follows, so that of two publishers one is refused, reads again and plans again: nothing is in a
table twice, whatever each had planned. It carries a number of the transaction `strata`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4
from zlib import crc32

from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

from exporters.archive.lake_place import LOG
from exporters.lake.log.checkpoints import sum_up
from exporters.lake.log.stored_log import StoredLog, read_stored
from exporters.lake.log.table_version import KEPT_HOURS, ActiveFile, AddedFile, TableVersion
from exporters.lake.log.version_cache import VersionCache
from transforms.errors import ConfigError, IntegrityError
from transforms.files import sync_file
from transforms.lake.statistics import fitted
from transforms.objects import ObjectInfo
from transforms.stores.store import LostRaceError, Store
from transforms.tables.file_columns import COLUMN_LIST, TEXTS, FileColumn

_APP = "strata"
_KEPT = f"interval {KEPT_HOURS} hours"
# deltalake forgets by this machine's clock when files were removed, which may be days ahead.
_TOLD = f"interval {2 * KEPT_HOURS} hours"
# A bucket is asked for each commit after the last checkpoint, whenever a table is opened.
_COMMITS = 10
_log = logging.getLogger(__name__)
_SKIPPING = "delta.dataSkippingStatsColumns"
_TEXT = PrimitiveType("string")
_NUMBERED = re.compile(r"\(os error (\d+)\)|Os \{ code: (\d+)")
_FORBIDDEN = re.compile(r"\b(401 Unauthorized|403 Forbidden)")
_OF_STORE = ("object store", "Generic S3 error")
_NESTED: Mapping[str, MapType | ArrayType] = {
    TEXTS: MapType(_TEXT, _TEXT, value_contains_null=True),
    COLUMN_LIST: ArrayType(
        StructType([Field("name", _TEXT), Field("type", _TEXT)]), contains_null=True
    ),
}


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
        try:
            table = self._opened()
        except IntegrityError:  # a file that another writer tidied away after it was listed
            table = self._opened()
        return None if table is None else self._version(table)

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

    def _opened(self, version: int | None = None) -> DeltaTable | None:
        # Credentials may run out while files are written: each opening asks for those of now.
        access = self._store.access(self._key)
        with self._plain_errors():
            try:
                return DeltaTable(access.uri, version, storage_options=dict(access.options))
            except TableNotFoundError:
                return None

    def _version(self, table: DeltaTable) -> TableVersion:
        with self._plain_errors():
            actions = table.get_add_actions(flatten=True)
        columns = (actions.column(name) for name in ("path", "size_bytes", "num_records"))
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        types = {
            field.name: field.type.type
            for field in table.schema().fields
            if isinstance(field.type, PrimitiveType)
        }
        described = table.metadata().configuration.get(_SKIPPING, "")
        return TableVersion(
            table.version(),
            tuple(sorted((ActiveFile(*row) for row in rows), key=lambda file: file.name)),
            types,
            frozenset(filter(None, described.split(","))),
        )

    def create(self, columns: Iterable[FileColumn]) -> TableVersion:
        """Make the table if it is not there, and read it."""
        file_columns = list(columns)
        refused: Exception | None = None
        access = self._store.access(self._key)
        with self._plain_errors():
            try:
                DeltaTable.create(
                    access.uri,
                    Schema([_field(column) for column in file_columns]),
                    mode="error",
                    name=self._table,
                    configuration={
                        "delta.deletedFileRetentionDuration": _TOLD,
                        "delta.logRetentionDuration": _KEPT,
                        "delta.checkpointInterval": str(_COMMITS),
                        _SKIPPING: _skipping(file_columns),
                    },
                    storage_options=dict(access.options),
                )
            except (CommitFailedError, DeltaError) as error:
                refused = error  # somebody else was faster, if it is there now
        newest = self.newest()
        if newest is None:
            raise self._plain(refused or DeltaError("what was made is not there")) from refused
        self._make_durable(0)
        return newest

    def add_columns(self, base: TableVersion, columns: Sequence[FileColumn]) -> TableVersion:
        """Add columns that the table lacks, NULL in the files that are there.

        They have statistics only where these files have no rows: of others nothing is said of the
        new columns, and deltalake's data sets for pyarrow then skip them whatever is asked.
        """
        self._forget()
        once = CommitProperties(max_commit_retries=0)
        handle = self._opened(base.number)
        if handle is None:
            raise LostRaceError(f"{self.place} was removed meanwhile")
        described = {column.name for column in columns if column.has_statistics}
        try:
            with self._plain_errors():
                fields = [_field(column) for column in columns]
                handle.alter.add_columns(fields, commit_properties=once)
                if described and not any(file.rows for file in base.files):
                    listed = ",".join(sorted(base.statistics_of | described))
                    handle.alter.set_table_properties({_SKIPPING: listed}, commit_properties=once)
        except CommitFailedError as error:
            what = f"was changed by another writer: {_first_line(error)}"
            raise LostRaceError(f"{self.place} {what}") from error
        for version in range(base.number + 1, handle.version() + 1):
            self._make_durable(version)
        changed = self.newest()
        assert changed is not None
        return changed

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
        if (following.number + crc32(self._table.encode())) % _COMMITS == 0:
            self._checkpoint(following.number)
        return following

    def _checkpoint(self, version: int) -> None:
        """Sum the log up, and forget what is older than a week; without it all is right as well."""
        try:
            with self._plain_errors():
                sum_up(self._store, self._log, version, KEPT_HOURS * 3600)
        except (ConfigError, IntegrityError, OSError) as error:
            _log.warning("the log of %s was not summed up: %s", self.place, error)

    def _make_durable(self, version: int) -> None:
        """A commit in a folder must survive a loss of power like the files that it names."""
        log = self._store.path(f"{self._log}/_")
        if log is not None:
            for path in (*log.parent.glob(f"{version:020}.*"), log.with_name("_last_checkpoint")):
                with suppress(FileNotFoundError):
                    sync_file(path)
            sync_file(log.parent)

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

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (CommitFailedError, TableNotFoundError):
            raise
        except (DeltaError, OSError) as error:
            raise self._plain(error) from error

    def _plain(self, error: Exception) -> Exception:
        """What is the matter: with the machine, the access, the service, or else the log itself.

        Raises what the store says of itself, if it cannot be read.
        """
        if match := _NUMBERED.search(str(error)):
            number = int(match[1] or match[2])
            if self._store.path(self._key) is not None:
                return OSError(number, os.strerror(number), self.place)
        next(self._store.list(f"{self._log}/_last_checkpoint"), None)
        if _FORBIDDEN.search(str(error)):
            return ConfigError(
                f"access to the log of {self.place} was refused: check the credentials and the "
                f"policy of the bucket; {_first_line(error)}"
            )
        if isinstance(error, OSError) or any(text in str(error) for text in _OF_STORE):
            return ConnectionError(
                f"{self.place} could not be read or written, so try again later; "
                f"{_first_line(error)}"
            )
        return IntegrityError(
            f"the log of {self.place} is damaged: put its folder {LOG} back from a backup, or "
            "remove the table's folder, and strata lake publish makes it anew; "
            f"{_first_line(error)}"
        )


def _first_line(error: Exception) -> str:
    """What deltalake says, without the trace and the colours that it may add."""
    lines = str(error).splitlines()
    return f"deltalake says: {lines[0] if lines else type(error).__name__}"


def _field(column: FileColumn) -> Field:
    return Field(column.name, _NESTED.get(column.type) or PrimitiveType(column.type))


def _skipping(columns: Iterable[FileColumn]) -> str:
    return ",".join(column.name for column in columns if column.has_statistics)


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
