"""From what is left to do to run requests: none twice, and later each time where one failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import dagster as dg

from pipelines.batches import Batch
from pipelines.partitions import range_of_tags, range_tags
from transforms.blocks import BlockRange

BATCH_TAG = "strata/blocks"
"""The blocks of a batch (`1-5000`), on every run that loads or publishes them."""

MOST_AT_ONCE = 20
"""How many runs are waiting or working at a time; further batches wait for the next look."""

_NO_TAGS: Mapping[str, str] = MappingProxyType({})
_LONGEST_PAUSE = timedelta(hours=1)
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
    now: datetime,
    tags: Mapping[str, str] = _NO_TAGS,
) -> Iterator[dg.RunRequest]:
    """Requests, with these `tags`, for the batches that no run is about already, ascending.

    A batch that was run before and is still to do comes again a minute later, in halves, so that a
    segment which cannot be published holds back no other for long. Alone in its batch, it waits
    twice as long each time, up to an hour.
    """
    busy = blocks_in_progress(instance)
    free = MOST_AT_ONCE - len(busy)
    waiting = deque(batches)
    while waiting and free > 0:
        batch = waiting.popleft()
        if any(batch.blocks.overlaps(taken) for taken in busy):
            continue
        ended = _earlier_runs(instance, batch)
        if ended and now < max(ended) + _pause(len(ended)):
            continue
        if ended and batch.halves():
            waiting.extendleft(reversed(batch.halves()))
            continue
        free -= 1
        yield dg.RunRequest(run_key=f"{batch}:{len(ended)}", tags={**batch_tags(batch), **tags})


def blocks_in_progress(instance: dg.DagsterInstance) -> list[BlockRange]:
    """The blocks of every run that is queued or working, whoever started it."""
    runs = instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED))
    ranges = (range_of_tags(run.tags) for run in runs)
    return [
        BlockRange(BlockRange.from_key(keys.start).first, BlockRange.from_key(keys.end).last)
        for keys in ranges
        if keys is not None
    ]


def _earlier_runs(instance: dg.DagsterInstance, batch: Batch) -> list[datetime]:
    """When runs over this very batch ended."""
    records = instance.get_run_records(dg.RunsFilter(tags={BATCH_TAG: str(batch)}))
    return [datetime.fromtimestamp(record.end_time or 0, UTC) for record in records]


def _pause(runs: int) -> timedelta:
    # No pause grows past the longest, and no number overflows on the way there.
    return min(timedelta(minutes=2 ** min(runs - 1, 10)), _LONGEST_PAUSE)
