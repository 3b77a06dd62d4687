"""A Delta table as deltalake makes, changes and reads it. Only this and `checkpoints` import it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

from exporters.archive.lake_place import LOG
from exporters.lake.log.checkpoints import sum_up
from exporters.lake.log.table_version import (
    KEPT_HOURS,
    VERSIONS_PER_CHECKPOINT,
    ActiveFile,
    TableVersion,
)
from transforms.errors import ConfigError, IntegrityError
from transforms.files import sync_file
from transforms.stores.store import LostRaceError, Store
from transforms.tables.file_columns import COLUMN_LIST, TEXTS, FileColumn

_KEPT = f"interval {KEPT_HOURS} hours"
# deltalake forgets by this machine's clock when files were removed, which may be days ahead.
_TOLD = f"interval {2 * KEPT_HOURS} hours"
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
class StoredTable:
    """The table `name` below `key` in a store. Nothing is read until it is asked."""

    store: Store
    key: str
    name: str

    def newest(self) -> TableVersion | None:
        """The newest version, read from the log; None where there is no table.

        Raises `IntegrityError` where the log is damaged.
        """
        try:
            table = self._opened()
        except IntegrityError:  # a file that another writer tidied away after it was listed
            table = self._opened()
        return None if table is None else self._version(table)

    def _opened(self, version: int | None = None) -> DeltaTable | None:
        # Credentials may run out while files are written: each opening asks for those of now.
        access = self.store.access(self.key)
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
        access = self.store.access(self.key)
        with self._plain_errors():
            try:
                DeltaTable.create(
                    access.uri,
                    Schema([_field(column) for column in file_columns]),
                    mode="error",
                    name=self.name,
                    configuration={
                        "delta.deletedFileRetentionDuration": _TOLD,
                        "delta.logRetentionDuration": _KEPT,
                        "delta.checkpointInterval": str(VERSIONS_PER_CHECKPOINT),
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
        once = CommitProperties(max_commit_retries=0)
        handle = self._opened(base.number)
        if handle is None:
            raise LostRaceError(f"{self._place} was removed meanwhile")
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
            raise LostRaceError(f"{self._place} {what}") from error
        for version in range(base.number + 1, handle.version() + 1):
            self._make_durable(version)
        changed = self.newest()
        assert changed is not None
        return changed

    def sum_up(self, version: int) -> None:
        """Write a checkpoint, and forget what is older than a week."""
        with self._plain_errors():
            sum_up(self.store, self._log, version, KEPT_HOURS * 3600)

    @property
    def _log(self) -> str:
        return f"{self.key}/{LOG}"

    @property
    def _place(self) -> str:
        return self.store.describe(self.key)

    def _make_durable(self, version: int) -> None:
        """A commit in a folder must survive a loss of power like the files that it names."""
        log = self.store.path(f"{self._log}/_")
        if log is not None:
            for path in (*log.parent.glob(f"{version:020}.*"), log.with_name("_last_checkpoint")):
                with suppress(FileNotFoundError):
                    sync_file(path)
            sync_file(log.parent)

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
            if self.store.path(self.key) is not None:
                return OSError(number, os.strerror(number), self._place)
        next(self.store.list(f"{self._log}/_last_checkpoint"), None)
        if _FORBIDDEN.search(str(error)):
            return ConfigError(
                f"access to the log of {self._place} was refused: check the credentials and the "
                f"policy of the bucket; {_first_line(error)}"
            )
        if isinstance(error, OSError) or any(text in str(error) for text in _OF_STORE):
            return ConnectionError(
                f"{self._place} could not be read or written, so try again later; "
                f"{_first_line(error)}"
            )
        return IntegrityError(
            f"the log of {self._place} is damaged: put its folder {LOG} back from a backup, or "
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
