"""From what is left to do to run requests: none twice, and later each time where one failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from pipelines.batches import Batch
from pipelines.partitions import range_of_tags, range_tags

QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The configuration of runs that say nothing on stderr: Dagster keeps all of it in its own log."""

BATCH_TAG = "strata/blocks"
"""The blocks of a batch (`1-5000`), on every run that loads or publishes them."""

MOST_AT_ONCE = 20
"""How many runs are waiting or working at a time; further batches wait for the next look."""

_PAUSE, _LONG_PAUSE = 60.0, 600.0  # seconds
_UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


def batch_tags(batch: Batch) -> dict[str, str]:
    """The tags of a run over a batch."""
    first, last = batch.segments[0], batch.segments[-1]
    return {**range_tags(first, last), BATCH_TAG: str(batch)}


def run_requests(
    instance: dg.DagsterInstance,
    batches: Iterable[Batch],
    partitions: Sequence[str],
    now: datetime,
) -> Iterator[dg.RunRequest]:
    """Requests for the batches that no run is about already, ascending.

    `partitions` are all keys in the order in which they were added.

    A batch that was run before and is still to do comes again a minute later, in halves, so that a
    segment which cannot be published holds back no other for long. Alone in its batch, it comes
    again a minute later, then every ten minutes.
    """
    busy = _keys_in_progress(instance, partitions)
    free = MOST_AT_ONCE - len(busy)
    waiting = deque(batches)
    while waiting and free > 0:
        batch = waiting.popleft()
        keys = [blocks.key for blocks in batch.segments]
        if not all(run.isdisjoint(keys) for run in busy):
            continue
        earlier = instance.get_run_records(dg.RunsFilter(tags={BATCH_TAG: str(batch)}), limit=2)
        pause = _PAUSE if batch.halves() or len(earlier) == 1 else _LONG_PAUSE
        if earlier and now.timestamp() < (earlier[0].end_time or 0) + pause:
            continue
        if earlier and batch.halves():
            waiting.extendleft(reversed(batch.halves()))
            continue
        free -= 1
        # Not their number: old runs are removed, and Dagster takes no key twice.
        after = earlier[0].dagster_run.run_id if earlier else ""
        yield dg.RunRequest(f"{batch}:{after}", QUIET, batch_tags(batch))


def _keys_in_progress(
    instance: dg.DagsterInstance, partitions: Sequence[str]
) -> list[frozenset[str]]:
    """The partitions of each run that is queued or working, whoever started it.

    A range of Dagster follows the order of adding, in which older blocks may come later. Somebody
    may have added a partition by hand, or deleted an end of the range.
    """
    places = {key: place for place, key in enumerate(partitions)}
    in_progress = []
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        keys = range_of_tags(run.tags)
        if keys is not None:
            are_known = keys.start in places and keys.end in places
            between = partitions[places[keys.start] : places[keys.end] + 1] if are_known else ()
            in_progress.append(frozenset((keys.start, keys.end, *between)))
    return in_progress
