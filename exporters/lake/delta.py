"""A table's Delta log: which files the table is made of. The only module that knows deltalake.

deltalake commits what is there, and writes no data. Every commit of ours carries a number of the
transaction `strata`, and is tried for the very version that was read, so that of two publishers one
is refused, reads again and plans again: nothing is in a table twice, whatever each had planned.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType
from deltalake.transaction import AddAction, RemoveAction

from exporters.lake.stored_log import StoredLog, read_stored
from transforms.errors import ConfigError, IntegrityError
from transforms.files import sync_file
from transforms.lake.columns import COLUMN_LIST, TEXTS, LakeColumn
from transforms.lake.statistics import fitted
from transforms.stores.store import LostRaceError, Store, StoreAccess

KEPT_HOURS = 168
"""How long a file that a table no longer names stays, for readers of older versions."""

_APP = "strata"
_KEPT = f"interval {KEPT_HOURS} hours"
# deltalake forgets by this machine's clock when files were removed, which may be days ahead.
_TOLD = f"interval {2 * KEPT_HOURS} hours"
# A bucket is asked for each commit after the last checkpoint, whenever a table is opened.
_COMMITS = "10"
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


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """A file that a table is made of: its name, bytes and rows."""

    name: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A file to be named by a table; `statistics` is the JSON that the log has of it."""

    name: str
    bytes: int
    statistics: str


@dataclass(frozen=True)
class TableVersion:
    """One version of a table, and the handle that a commit upon it goes through.

    `access` is how it was opened; `plain_errors` makes sentences of what its reading raises.
    """

    table: DeltaTable
    access: StoreAccess
    plain_errors: Callable[[], AbstractContextManager[None]]

    @property
    def version(self) -> int:
        """The version's number."""
        return self.table.version()

    @cached_property
    def files(self) -> tuple[ActiveFile, ...]:
        """The files, by name."""
        rows = self._actions("path", "size_bytes", "num_records")
        return tuple(sorted((ActiveFile(*row) for row in rows), key=lambda file: file.name))

    def _actions(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        with self.plain_errors():
            table = self.table.get_add_actions(flatten=True)
        return zip(*(table.column(name).to_pylist() for name in columns), strict=True)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The plain columns: name to Delta type."""
        return {
            field.name: field.type.type
            for field in self.table.schema().fields
            if isinstance(field.type, PrimitiveType)
        }

    @property
    def statistics_of(self) -> frozenset[str]:
        """The columns that files have statistics of."""
        listed = self.table.metadata().configuration.get(_SKIPPING, "")
        return frozenset(filter(None, listed.split(",")))

    def statistics(self) -> dict[str, dict[str, Any]]:
        """What the log says of each file, by name: flattened columns of `get_add_actions`."""
        with self.plain_errors():
            table = self.table.get_add_actions(flatten=True)
        names = table.schema.names
        columns = [table.column(name).to_pylist() for name in names]
        return {
            row[names.index("path")]: dict(zip(names, row, strict=True))
            for row in zip(*columns, strict=True)
        }


class DeltaLog:
    """The log of the table below `key` in a store. Nothing is read until it is asked."""

    def __init__(self, store: Store, key: str, table: str) -> None:
        self._store = store
        self._key = key
        self._table = table

    def snapshot(self) -> TableVersion | None:
        """The newest version; None where there is no table.

        Raises `IntegrityError` where the log is damaged.
        """
        try:
            return self._opened()
        except IntegrityError:  # a file that another writer tidied away after it was listed
            return self._opened()

    def _opened(self, version: int | None = None) -> TableVersion | None:
        access = self._store.access(self._key)
        with self._plain_errors():
            try:
                table = DeltaTable(access.uri, version, storage_options=dict(access.options))
            except TableNotFoundError:
                return None
        return TableVersion(table, access, self._plain_errors)

    def create(self, columns: Iterable[LakeColumn]) -> TableVersion:
        """Make the table if it is not there, and read it."""
        lake_columns = list(columns)
        refused: Exception | None = None
        access = self._store.access(self._key)
        with self._plain_errors():
            try:
                DeltaTable.create(
                    access.uri,
                    Schema([_field(column) for column in lake_columns]),
                    mode="error",
                    name=self._table,
                    configuration={
                        "delta.deletedFileRetentionDuration": _TOLD,
                        "delta.logRetentionDuration": _KEPT,
                        "delta.checkpointInterval": _COMMITS,
                        _SKIPPING: _skipping(lake_columns),
                    },
                    storage_options=dict(access.options),
                )
            except (CommitFailedError, DeltaError) as error:
                refused = error  # somebody else was faster, if it is there now
        snapshot = self.snapshot()
        if snapshot is None:
            raise self._plain(refused or DeltaError("what was made is not there")) from refused
        self._make_durable(0)
        return snapshot

    def add_columns(self, snapshot: TableVersion, columns: Sequence[LakeColumn]) -> TableVersion:
        """Add columns that the table lacks, NULL in the files that are there.

        They have statistics only where these files have no rows: of others nothing is said of the
        new columns, and deltalake's data sets for pyarrow then skip them whatever is asked.
        """
        once = CommitProperties(max_commit_retries=0)
        handle = self._current(snapshot)
        described = {column.name for column in columns if column.has_statistics}
        with self._plain_errors(), _racing(self.place):
            handle.alter.add_columns([_field(column) for column in columns], commit_properties=once)
            if described and not any(file.rows for file in snapshot.files):
                listed = ",".join(sorted(snapshot.statistics_of | described))
                handle.alter.set_table_properties({_SKIPPING: listed}, commit_properties=once)
        for version in range(snapshot.version + 1, handle.version() + 1):
            self._make_durable(version)
        changed = self.snapshot()
        assert changed is not None
        return changed

    def commit(
        self,
        snapshot: TableVersion,
        added: Sequence[AddedFile],
        removed: Sequence[ActiveFile] = (),
        *,
        changes_data: bool = True,
    ) -> None:
        """Name files and name others no longer, in one version after the snapshot's.

        `changes_data` is False where the rows stay what they were. Raises `LostRaceError` where
        somebody else committed since the snapshot was read.
        """
        # The store's clock says later how long ago a file was removed.
        now = int((self._store.now() if removed else time.time()) * 1000)
        properties = CommitProperties(
            max_commit_retries=0,
            app_transactions=[Transaction(_APP, snapshot.version + 1, now)],
        )
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(file.name, changes_data, now, file.bytes, {}) for file in removed
        ]
        described = sorted(snapshot.statistics_of)
        actions += [
            AddAction(
                file.name, file.bytes, {}, now, changes_data, fitted(file.statistics, described)
            )
            for file in added
        ]
        handle = self._current(snapshot)
        with self._plain_errors(), _racing(self.place):
            handle.create_write_transaction(
                actions, "append", handle.schema(), commit_properties=properties
            )
        self._make_durable(snapshot.version + 1)

    def _current(self, snapshot: TableVersion) -> DeltaTable:
        """The handle of a version, with credentials that are good now.

        Those that it was opened with may have run out while files were written.
        """
        if self._store.access(self._key) == snapshot.access:
            return snapshot.table
        opened = self._opened(snapshot.version)
        if opened is None:
            raise LostRaceError(f"{self.place} was removed meanwhile")
        return opened.table

    def _make_durable(self, version: int) -> None:
        """A commit in a folder must survive a loss of power like the files that it names."""
        log = self._store.path(f"{self._key}/_delta_log/_")
        if log is not None:
            for path in (*log.parent.glob(f"{version:020}.*"), log.with_name("_last_checkpoint")):
                with suppress(FileNotFoundError):
                    sync_file(path)
            sync_file(log.parent)

    def stored(self, snapshot: TableVersion) -> StoredLog:
        """What the log's own files say up to a version, read without deltalake.

        That shows only the statistics of columns it is told of; other readers use whatever is
        there. Raises `IntegrityError` where a file of the log is damaged or lacks.
        """
        return read_stored(self._store, f"{self._key}/_delta_log", snapshot.version)

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
        next(self._store.list(f"{self._key}/_delta_log/_last_checkpoint"), None)
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
            f"the log of {self.place} is damaged: put its folder _delta_log back from a backup, or "
            "remove the table's folder, and strata lake publish makes it anew; "
            f"{_first_line(error)}"
        )


@contextmanager
def _racing(place: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise LostRaceError(
            f"{place} was changed by another writer: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    """What deltalake says, without the trace and the colours that it may add."""
    lines = str(error).splitlines()
    return f"deltalake says: {lines[0] if lines else type(error).__name__}"


def _field(column: LakeColumn) -> Field:
    return Field(column.name, _NESTED.get(column.type) or PrimitiveType(column.type))


def _skipping(columns: Iterable[LakeColumn]) -> str:
    return ",".join(column.name for column in columns if column.has_statistics)
