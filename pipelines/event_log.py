"""Dagster's event log on SQLite: written a batch at a time, and a sixth of the size.

Dagster hands a partition range's events over in batches, but its SQLite storage stores each alone,
and opens and closes a database file several times to do so: 20 ms an event, a second for each
segment with its 30 assets. One transaction per file and batch, on an open connection, costs less
than a millisecond an event.

It also stores each of them twice, in the run's file and in the index of all runs, with everything
said several times over. Here the index alone has an event for each partition, without what the row
or the event itself says elsewhere; a run's file has one of each asset and batch; and what a run
planned is gone when it has succeeded. The format is Dagster's, so the stock storage reads and
continues such a log, and the other way round.

What a step says a dozen times in a row, of each output and each check, is stored with what it says
next, in one transaction: whoever reads in the same process has it stored first, and a process that
is killed loses no more than such a series.

This leans on internals of the pinned Dagster; `tests/pipelines/test_event_log.py` compares the two
storages row by row. PostgreSQL's storage batches by itself, stores once, and needs none of this.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

import dagster as dg
from sqlalchemy import Connection, Engine, create_engine, event

from exporters.locations import set_for_library
from pipelines.dagster_internals import (
    ASSET_CHECK_EVENTS,
    ASSET_EVENTS,
    INDEX_SHARD_NAME,
    SQLITE_BUSY_TIMEOUT_SECONDS,
    ConfigurableClassData,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
    UserConfigSchema,
    serialize_value,
)
from transforms.scratch import exclusive

_PLANNED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value
_SHORTENED = ASSET_EVENTS | ASSET_CHECK_EVENTS | {dg.DagsterEventType.STEP_OUTPUT}
_IN_SERIES = ASSET_CHECK_EVENTS | {dg.DagsterEventType.STEP_OUTPUT}
_MOST_WAITING = 1000
_BATCH_SIZE = "1000"
_PAGE_BYTES = 16384
_TABLES = "select sql from sqlite_master where sql is not null and name not like 'sqlite_%'"
_OPEN_FILES = 4  # the index and the log files of a few runs


class BatchedSqliteEventLogStorage(SqliteEventLogStorage):
    """`SqliteEventLogStorage` with open connections and one transaction per file and batch."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        # Several events in one transaction: what stores one of them asks for it again.
        self._lock = RLock()
        self._open_connections: dict[str, Connection] = {}
        self._waiting: list[dg.EventLogEntry] = []
        self._known_tables: set[str] = set()
        self._known_columns: set[str] = set()
        self._known_indexes: set[str] = set()
        index = Path(base_dir, f"{INDEX_SHARD_NAME}.db")
        with exclusive(index.with_suffix(".lock")):
            is_there = index.exists() and not _remove_unfinished(index)
            super().__init__(base_dir, inst_data)
            if not is_there:
                self._close(keep=0)
                _use_large_pages(index)

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
        # The stock storage's own place below DAGSTER_HOME.
        return cls(str(Path(config_value["home"], "history", "runs")), inst_data)

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Store one event, or let it wait; that of a success ends what its run planned."""
        with self._lock:
            if self._waiting and self._waiting[0].run_id != event.run_id:
                self._store_waiting()
            self._waiting.append(_shortened(event))
            is_in_series = event.run_id and event.dagster_event_type in _IN_SERIES
            if not is_in_series or len(self._waiting) == _MOST_WAITING:
                self._store_waiting()
        if event.dagster_event_type == dg.DagsterEventType.PIPELINE_SUCCESS:
            # They say which partitions are being made, or failed: no longer true of any.
            events = SqlEventLogStorageTable
            planned = events.c.dagster_event_type == _PLANNED
            with self.index_transaction() as connection:
                connection.execute(
                    events.delete().where(events.c.run_id == event.run_id).where(planned)
                )

    def _store_waiting(self) -> None:
        """Store all that waits in one transaction of its run's file, and one of the index."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        with self.run_connection(waiting[0].run_id), self.index_connection():
            for event in waiting:
                super().store_event(event)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store events of one run; where this raises, Dagster stores them one by one instead."""
        batch = [_shortened(event) for event in events if event.dagster_event_type in ASSET_EVENTS]
        super().store_event_batch(
            [event for event in events if event.dagster_event_type not in ASSET_EVENTS]
        )
        if not batch:
            return
        of_run = [self._event_to_row(event) for event in _one_for_each_asset(batch)]
        with self.run_connection(batch[0].run_id) as connection:
            connection.execute(SqlEventLogStorageTable.insert(), of_run)
        rows = [self._event_to_row(event) for event in batch]
        # The index file has the asset events of all runs; its row ids are the events' ids.
        insert = SqlEventLogStorageTable.insert().returning(
            SqlEventLogStorageTable.c.id, sort_by_parameter_order=True
        )
        with self.index_transaction() as connection:
            ids = connection.execute(insert, rows).scalars().all()
            self._store_asset_event_tags(connection, batch, ids)
            # An asset's own row keeps its last event only.
            last = {row["asset_key"]: place for place, row in enumerate(rows)}
            for place in last.values():
                self._store_asset_event(connection, batch[place], ids[place])

    def has_table(self, table_name: str) -> bool:
        """Whether a table exists: once it does, it stays."""
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def has_secondary_index(self, name: str) -> bool:
        """Whether an index of events is complete: once it is, it stays so."""
        if name not in self._known_indexes and super().has_secondary_index(name):
            self._known_indexes.add(name)
        return name in self._known_indexes

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        # Asked for each event, and each time SQLAlchemy reads the table's definition.
        known = self._known_columns
        if column_name not in known and super()._has_asset_key_col_on_connection(conn, column_name):
            known.add(column_name)
        return column_name in known

    def close_run(self, run_id: str) -> None:
        """Close the file of a run that is going to be removed."""
        with self._lock:
            self._initialized_dbs.discard(run_id)
            if engine := self._engines.pop(run_id, None):
                engine.dispose()

    def dispose(self) -> None:
        """Close the files."""
        with self._lock:
            self._store_waiting()
        self._close(keep=0)
        super().dispose()

    def wipe(self) -> None:
        """Remove everything; no file that goes may stay open."""
        self._waiting.clear()
        self._close(keep=0)
        super().wipe()

    def _event_to_row(self, event: dg.EventLogEntry) -> dict[str, Any]:
        if event.dagster_event_type not in _SHORTENED:
            return super()._event_to_row(event)
        about = event.get_dagster_event()
        return {
            "run_id": event.run_id,
            "event": serialize_value(event, separators=(",", ":")),
            "dagster_event_type": about.event_type_value,
            "timestamp": datetime.fromtimestamp(event.timestamp, UTC).replace(tzinfo=None),
            "step_key": about.step_key,
            "asset_key": about.asset_key.to_string() if about.asset_key else None,
            "partition": about.partition or None,
        }

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._lock:
            if shard in self._open_connections:
                yield self._open_connections[shard]
                return
            self._store_waiting()  # whoever asks gets it with the rest
            engine = self._engines.pop(shard, None) or self._open(shard)
            self._engines[shard] = engine
            self._close(keep=_OPEN_FILES)
            with engine.begin() as connection:
                self._open_connections[shard] = connection
                try:
                    yield connection
                finally:
                    del self._open_connections[shard]

    def _open(self, shard: str) -> Engine:
        timeout = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
        engine = create_engine(self.conn_string_for_shard(shard), connect_args=timeout)
        event.listen(engine, "connect", _do_not_wait_for_the_disk)
        if shard not in self._initialized_dbs:
            if shard == INDEX_SHARD_NAME:
                if not _has_revision(self.path_for_shard(shard)):
                    self._initdb(engine)
            else:
                _copy_schema(*map(self.path_for_shard, (INDEX_SHARD_NAME, shard)))
            self._initialized_dbs.add(shard)
        return engine

    def _close(self, keep: int) -> None:
        while len(self._engines) > keep:
            _, oldest = self._engines.popitem(last=False)
            oldest.dispose()


def _has_revision(index: str) -> bool:
    """Whether the tables of the index were made; Alembic would read all migrations to say so."""
    timeout = SQLITE_BUSY_TIMEOUT_SECONDS
    with (
        suppress(sqlite3.OperationalError),  # there are no tables
        closing(sqlite3.connect(index, timeout)) as con,
    ):
        return con.execute("select version_num from alembic_version").fetchone() is not None
    return False


def _copy_schema(index: str, run: str) -> None:
    """Give a run's file, unless it has them, the tables of the index and their revision.

    Dagster has Alembic do so, which reads all migrations that there ever were: 0.1 s.
    """
    with closing(sqlite3.connect(index, SQLITE_BUSY_TIMEOUT_SECONDS)) as con:
        tables = con.execute(_TABLES).fetchall()
        revisions = con.execute("select version_num from alembic_version").fetchall()
    timeout = SQLITE_BUSY_TIMEOUT_SECONDS
    with closing(sqlite3.connect(run, timeout, isolation_level=None)) as con:
        con.execute("pragma journal_mode = wal")
        con.execute("begin immediate")  # somebody may look at the run that begins
        if not con.execute(_TABLES).fetchone():
            for (statement,) in tables:
                con.execute(statement)
            con.executemany("insert into alembic_version values (?)", revisions)
        con.execute("commit")


def _remove_unfinished(index: Path) -> bool:
    """Remove an index whose maker was killed, which Dagster would take for a whole one.

    It makes it table by table, and marks it last; before that nobody stores an event in it. Returns
    whether this was one.
    """
    with closing(sqlite3.connect(index)) as con:
        tables = {name for (name,) in con.execute("select name from sqlite_master")}
        for table in tables & {"secondary_indexes", "event_logs"}:
            if con.execute(f"select 1 from {table} limit 1").fetchall():  # noqa: S608 - one of two
                return False
    for ending in ("", "-wal", "-shm"):
        Path(f"{index}{ending}").unlink(missing_ok=True)
    return True


def _use_large_pages(index: Path) -> None:
    """A page holds ten events instead of two, and so wastes less of its end."""
    # Where another process has the new file open as well, it keeps its small pages.
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(index, timeout=0)) as con:
        con.execute("pragma journal_mode = delete")
        con.execute(f"pragma page_size = {_PAGE_BYTES}")
        con.execute("vacuum")
        con.execute("pragma journal_mode = wal")


def _do_not_wait_for_the_disk(connection: sqlite3.Connection, _record: object) -> None:
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


def _one_for_each_asset(batch: Sequence[dg.EventLogEntry]) -> Iterator[dg.EventLogEntry]:
    """The last event of each kind and asset; its message says of how many partitions it tells."""
    groups: dict[object, list[dg.EventLogEntry]] = {}
    for entry in batch:
        event = entry.get_dagster_event()
        groups.setdefault((event.event_type_value, event.asset_key), []).append(entry)
    for group in groups.values():
        event = group[-1].get_dagster_event()
        if len(group) > 1:
            event = event._replace(
                message=f"{event.message} This line stands for {len(group)} partitions; each has "
                "its own on the asset's page."
            )
        yield group[-1]._replace(dagster_event=event)
