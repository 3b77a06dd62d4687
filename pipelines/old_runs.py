"""Removing runs that ended long ago, with their logs; what they made stays what Dagster says it is.

Dagster's own removal of a run (`DagsterInstance.delete_run`) also removes its materializations, and
with them the status of the partitions. Here the newest materialization of each asset and partition
stays, and the newest evaluation of each check. The rest of a run goes: first its events, then its
files, and last the run itself, so that a removal that was killed is done again.

This knows the tables of the pinned Dagster's event log, which are the same on SQLite and PostgreSQL
(and none of it where the event log is another one).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import dagster as dg
from sqlalchemy import ColumnElement, and_, exists, func, or_, select

from pipelines.dagster_internals import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorage,
    SqlEventLogStorageTable,
)

NEWEST_KEPT = 100
"""So many runs stay, however long ago they ended."""

KEPT_FOR = timedelta(days=7)
"""How long any other run stays after its end."""

ENDED = [
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
]
_AT_ONCE = 100


def remove_old_runs(
    instance: dg.DagsterInstance, now: datetime, newest_kept: int = NEWEST_KEPT
) -> int:
    """Remove runs that ended more than a week ago; returns how many.

    It may be killed at any point, and run by several processes at once.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return 0
    removed = 0
    for run_id in _old_runs(instance, now - KEPT_FOR, newest_kept):
        _remove_run(instance, storage, run_id)
        removed += 1
    return removed


def _old_runs(
    instance: dg.DagsterInstance, ended_before: datetime, newest_kept: int
) -> Iterator[str]:
    """The ids of runs to remove, the oldest first; each must be gone before the next is asked."""
    newest = frozenset(instance.get_run_ids(limit=newest_kept) if newest_kept else ())
    old = dg.RunsFilter(statuses=ENDED, updated_before=ended_before)
    while True:
        records = instance.get_run_records(old, limit=_AT_ONCE, ascending=True)
        ids = [record.dagster_run.run_id for record in records]
        expired = [run_id for run_id in ids if run_id not in newest]
        if not expired:
            return
        yield from expired


def _remove_run(instance: dg.DagsterInstance, storage: SqlEventLogStorage, run_id: str) -> None:
    """Remove a run that has ended, but not what it made."""
    _remove_events(storage, run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    instance.run_storage.delete_run(run_id)


def _remove_events(storage: SqlEventLogStorage, run_id: str) -> None:
    events, tags, checks = SqlEventLogStorageTable, AssetEventTagsTable, AssetCheckExecutionsTable
    later = checks.alias()
    evaluated_again = exists().where(
        later.c.asset_key == checks.c.asset_key,
        later.c.check_name == checks.c.check_name,
        later.c.id > checks.c.id,
    )
    gone = and_(events.c.run_id == run_id, _is_needless())
    with storage.index_transaction() as connection:
        ids = select(events.c.id).where(gone)
        connection.execute(tags.delete().where(tags.c.event_id.in_(ids)))
        connection.execute(events.delete().where(gone))
        connection.execute(checks.delete().where(checks.c.run_id == run_id, evaluated_again))


def _is_needless() -> ColumnElement[bool]:
    """Whether an event is not the newest materialization of its asset and partition."""
    events, later = SqlEventLogStorageTable, SqlEventLogStorageTable.alias()
    materialization = dg.DagsterEventType.ASSET_MATERIALIZATION.value
    again = (
        later.c.asset_key == events.c.asset_key,
        later.c.dagster_event_type == materialization,
        later.c.id > events.c.id,
    )
    # Two questions, as no index of PostgreSQL answers the one whether both are null or equal.
    made_again = or_(
        exists().where(*again, later.c.partition == events.c.partition),
        and_(events.c.partition.is_(None), exists().where(*again, later.c.partition.is_(None))),
    )
    # SQLite would give the greatest id again, and what reads on from an id would miss that event.
    newest = select(func.max(later.c.id)).scalar_subquery()
    kind = events.c.dagster_event_type
    return and_(or_(kind.is_(None), kind != materialization, made_again), events.c.id < newest)
