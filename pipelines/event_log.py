"""Dagster's event log in one SQLite file, written a batch at a time, and a sixth of the size.

Dagster hands a partition range's events over in batches, but its storages on SQLite store each
alone, and open and close the database several times to do so: 20 ms an event, a second for each
segment with its 30 assets. One transaction for each batch, on an open connection, costs less than a
millisecond an event.

An event is stored once, without what its row or the event itself says elsewhere; and what a run
planned is gone when it has succeeded. The format is Dagster's, so its own
`ConsolidatedSqliteEventLogStorage` reads and continues such a log, and the other way round.

This leans on internals of the pinned Dagster; `tests/pipelines/test_event_log.py` compares the two
storages row by row. PostgreSQL's storage batches by itself and needs none of this.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import dagster as dg
from sqlalchemy import Connection, create_engine, event

from exporters.locations import set_for_library
from pipelines.dagster_internals import (
    ASSET_CHECK_EVENTS,
    ASSET_EVENTS,
    SQLITE_BUSY_TIMEOUT_SECONDS,
    ConfigurableClassData,
    ConsolidatedSqliteEventLogStorage,
    SqlEventLogStorageTable,
    UserConfigSchema,
)
from transforms.scratch import exclusive, scratch_folder, sweep_scratch

_PLANNED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value
_SHORTENED = ASSET_EVENTS | ASSET_CHECK_EVENTS | {dg.DagsterEventType.STEP_OUTPUT}
_BATCH_SIZE = "1000"
_PAGE_BYTES = 16384
_FILE = "event_log.db"  # as Dagster names it


class BatchedSqliteEventLogStorage(ConsolidatedSqliteEventLogStorage):
    """`ConsolidatedSqliteEventLogStorage` with an open connection and a transaction per batch."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        _make_log(Path(base_dir))
        super().__init__(base_dir, inst_data)
        timeout = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
        self._engine = create_engine(self._conn_string, connect_args=timeout)
        event.listen(self._engine, "connect", _set_up)
        # Several events in one transaction: what stores one of them asks for it again.
        self._lock = RLock()
        self._connection: Connection | None = None

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """One setting, `home`: the folder that holds `dagster.yaml`."""
        return {"home": dg.StringSource}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> BatchedSqliteEventLogStorage:
        """Open the log that `dagster.yaml` configures; Dagster calls this."""
        # Dagster batches only where this is set, in every process that writes events. Each of them
        # opens the log first, so nobody has to remember it. A value given from outside stands.
        set_for_library("DAGSTER_EVENT_BATCH_SIZE", _BATCH_SIZE, unless_set=True)
        return cls(str(Path(config_value["home"], "history")), inst_data)

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Store one event; that of a success ends what its run planned."""
        with self._connect() as connection:
            super().store_event(_shortened(event))
            if event.dagster_event_type == dg.DagsterEventType.PIPELINE_SUCCESS:
                # They say which partitions are being made, or failed: no longer true of any.
                events = SqlEventLogStorageTable
                planned = events.c.dagster_event_type == _PLANNED
                connection.execute(
                    events.delete().where(events.c.run_id == event.run_id).where(planned)
                )

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store events of one run; where this raises, Dagster stores them one by one instead."""
        batch = [_shortened(event) for event in events if event.dagster_event_type in ASSET_EVENTS]
        # Their row ids are the events' ids.
        insert = SqlEventLogStorageTable.insert().returning(
            SqlEventLogStorageTable.c.id, sort_by_parameter_order=True
        )
        with self._connect() as connection:
            super().store_event_batch(
                [event for event in events if event.dagster_event_type not in ASSET_EVENTS]
            )
            if not batch:
                return
            rows = [self._event_to_row(event) for event in batch]
            ids = connection.execute(insert, rows).scalars().all()
            self._store_asset_event_tags(connection, batch, ids)
            # An asset's own row keeps its last event only.
            last = {row["asset_key"]: place for place, row in enumerate(rows)}
            for place in last.values():
                self._store_asset_event(connection, batch[place], ids[place])

    def get_db_path(self) -> str:
        """The file that changes with each event: Dagster's web interface watches it."""
        return str(Path(self._base_dir, f"{_FILE}-wal"))

    def _init_db(self) -> None:
        """Make nothing where that file is not there: `_make_log` has made the log."""

    def has_table(self, table_name: str) -> bool:
        """Whether a table exists."""
        with self._connect() as connection:
            return self._engine.dialect.has_table(connection, table_name)

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:  # noqa: ARG002
        return True  # the tables are those of the pinned Dagster, which would look at each event

    def dispose(self) -> None:
        """Close the file."""
        self._engine.dispose()
        super().dispose()  # type: ignore[no-untyped-call]

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        with self._lock:
            if self._connection is not None:
                yield self._connection
                return
            with self._engine.begin() as self._connection:
                try:
                    yield self._connection
                finally:
                    self._connection = None


def _make_log(folder: Path) -> None:
    """Make the file whole or not at all, unless it is there: Dagster makes table after table."""
    file = folder / _FILE
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "event_log.lock"):
        if file.exists():
            return
        sweep_scratch(folder)
        with scratch_folder(folder) as scratch:
            ConsolidatedSqliteEventLogStorage(str(scratch))
            with closing(sqlite3.connect(scratch / _FILE)) as con:
                # A page holds ten events instead of two, and so wastes less of its end.
                con.execute("pragma temp_store = memory")
                con.execute("pragma journal_mode = delete")
                con.execute(f"pragma page_size = {_PAGE_BYTES}")
                con.execute("vacuum")
                con.execute("pragma journal_mode = wal")
            (scratch / _FILE).rename(file)


def _set_up(connection: sqlite3.Connection, _record: object) -> None:
    # A batch's journal would else be a file in TMPDIR, which may be full.
    connection.execute("pragma temp_store = memory")
    # With a write-ahead log, a power cut may take the last events, but damages nothing.
    connection.execute("pragma synchronous = normal")


def _shortened(event: dg.EventLogEntry) -> dg.EventLogEntry:
    """An asset's event without what it says twice: nothing reads the second one."""
    dagster_event = event.dagster_event
    if dagster_event is None or event.dagster_event_type not in _SHORTENED:
        return event
    return event._replace(
        user_message="",  # Dagster shows the event's own message
        dagster_event=dagster_event._replace(logging_tags={}, step_handle=None, node_handle=None),
    )
