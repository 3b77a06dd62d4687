"""Dagster's event log on SQLite, written a batch at a time.

Dagster hands a partition range's events over in batches, but its SQLite storage still opens two
connections and commits twice for each of them: 20 ms an event, a second for each segment with its
30 assets. One transaction per database file and batch costs 1 ms an event. What is stored is the
same, so the stock storage reads and continues such a log, and the other way round.

This leans on internals of the pinned Dagster; `tests/pipelines/test_event_log.py` compares the two
storages row by row. PostgreSQL's storage batches by itself and needs none of this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._config.config_schema import UserConfigSchema
from dagster._core.events import ASSET_EVENTS
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData

_BATCH_SIZE = "1000"


class BatchedSqliteEventLogStorage(SqliteEventLogStorage):
    """`SqliteEventLogStorage` whose batches of asset events take one transaction per file."""

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
        os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", _BATCH_SIZE)
        # The stock storage's own place below DAGSTER_HOME.
        return cls(str(Path(config_value["home"], "history", "runs")), inst_data)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store events of one run; where this raises, Dagster stores them one by one instead."""
        batch = [event for event in events if event.dagster_event_type in ASSET_EVENTS]
        super().store_event_batch(
            [event for event in events if event.dagster_event_type not in ASSET_EVENTS]
        )
        if not batch:
            return
        rows = [self._event_to_row(event) for event in batch]
        with self.run_connection(batch[0].run_id) as connection:
            connection.execute(SqlEventLogStorageTable.insert(), rows)
        # The index file mirrors the asset events of all runs; its row ids are the events' ids.
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
