"""What of Dagster its makers do not publish, and we need; nothing else imports it.

Tables and storage of the event log, and what they are opened with: `pipelines.event_log` is such a
storage, and `pipelines.old_runs` removes what no public function removes alone. A release of
Dagster may change any of it, so one is pinned; `tests/pipelines/test_event_log.py` compares what
the storage writes with Dagster's own, row by row.
"""

from __future__ import annotations

from dagster._config.config_schema import UserConfigSchema
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.event_log import (
    ConsolidatedSqliteEventLogStorage,
    SqlEventLogStorage,
)
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._serdes import ConfigurableClassData

__all__ = [
    "ASSET_CHECK_EVENTS",
    "ASSET_EVENTS",
    "SQLITE_BUSY_TIMEOUT_SECONDS",
    "AssetCheckExecutionsTable",
    "AssetEventTagsTable",
    "ConfigurableClassData",
    "ConsolidatedSqliteEventLogStorage",
    "SqlEventLogStorage",
    "SqlEventLogStorageTable",
    "UserConfigSchema",
]
