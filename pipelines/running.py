"""Running the jobs here and now, in this process, as real runs of a Dagster instance."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import dagster as dg

from pipelines.assets.same_warehouse import warehouse_tags
from pipelines.batches import Batch, plan_batches
from pipelines.definitions import definitions
from pipelines.instance import (
    COMMAND_LINE_TAG,
    add_partitions,
    only_command_line,
    open_instance,
)
from pipelines.jobs import load_and_publish, publish_bundles
from pipelines.old_runs import NEWEST_KEPT, remove_old_runs
from pipelines.retries import MACHINE
from pipelines.run_requests import batch_tags
from pipelines.site.segment_status import site_status
from pipelines.site.site import LISTED_SECONDS, Site
from transforms import interrupts

# Dagster's own log goes to its event log; on the terminal it would drown everything else.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run of one batch (None: of the bundles): its id, and why it failed unless it is empty.

    `affects_all` says that the others would fail the same way: a setting, a full disk, no network;
    `of_machine` that it is one of the latter two.
    """

    batch: Batch | None
    run_id: str
    failure: str = ""
    affects_all: bool = False
    of_machine: bool = False


def run_everything(site: Site, home: Path, report: Callable[[FinishedRun], object]) -> None:
    """Load and publish all that is left to do, a run for each batch; `report` gets each one.

    What a failed run left undone is tried again, without the segments that were refused meanwhile,
    else in halves: in the end only what cannot be done is left, and none of it stops the others.
    """
    defs = definitions(site.settings)
    with open_instance(home) as instance, only_command_line(instance, home):
        runner = _Runner(site, instance, defs)
        status = site_status(site, LISTED_SECONDS)
        partitions = add_partitions(instance, status.known)
        waiting = deque(plan_batches(status.to_do, partitions, site.settings.batch))
        while waiting:
            batch = waiting.popleft()
            finished = runner.run(load_and_publish.name, batch)
            if interrupts.requested():  # Dagster notes it, and goes on
                raise KeyboardInterrupt
            report(finished)
            if finished.affects_all:
                return
            if finished.failure:
                waiting.extendleft(reversed(_rest(site, batch, partitions)))
        if site.settings.bundle:
            report(runner.run(publish_bundles.name, None))
        # Where no daemon does so; one run comes at a time, so few become old.
        days = site.settings.keep_runs_days
        remove_old_runs(instance, days, datetime.now(UTC), most=NEWEST_KEPT)


def _rest(site: Site, batch: Batch, partitions: Sequence[str]) -> Sequence[Batch]:
    """What to try after a batch failed: always less than the batch.

    What only the lake refuses it refuses in halves, too.
    """
    status = site_status(site, LISTED_SECONDS)
    rest = frozenset(status.to_do) & frozenset(batch.segments)
    if len(rest) == len(batch.segments):
        return batch.halves() if rest & status.unarchived else ()
    return list(plan_batches(rest, partitions, len(batch.segments)))


@dataclass(frozen=True, slots=True)
class _Runner:
    site: Site
    instance: dg.DagsterInstance
    definitions: dg.Definitions

    def run(self, job: str, batch: Batch | None) -> FinishedRun:
        result = self.definitions.resolve_job_def(job).execute_in_process(
            run_config=_QUIET,
            instance=self.instance,
            tags={
                **(batch_tags(batch) if batch else {}),
                **warehouse_tags(self.site),
                **COMMAND_LINE_TAG,
            },
            resources={"site": self.site},
            raise_on_error=False,
        )
        if result.success:
            return FinishedRun(batch, result.run_id)
        reasons = dict(_reasons(result))
        failure = "; ".join(reasons) or "see the run's log"
        kinds = set(reasons.values())
        return FinishedRun(
            batch,
            result.run_id,
            failure,
            affects_all=_Scope.BATCH not in kinds,
            of_machine=_Scope.MACHINE in kinds,
        )


class _Scope(Enum):
    """What a failure is about: the batch's own segments, the machine, or anything else."""

    BATCH = "batch"
    MACHINE = "machine"
    ALL = "all"


def _reasons(result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, _Scope]]:
    """Why steps failed, as sentences, and what that is about."""
    for event in result.filter_events(lambda event: event.is_step_failure):
        data = event.step_failure_data
        failure = data.user_failure_data
        if failure is not None:
            scope = _Scope.MACHINE if MACHINE in failure.metadata else _Scope.BATCH
            yield failure.description or failure.label or "", scope
            continue
        error = data.error
        while error is not None and error.cause is not None and _is_dagsters(error.cls_name):
            error = error.cause
        if error is not None:
            kind = error.cls_name or "error"
            message = " ".join(error.message.split()).partition(f"{kind}: ")[2]
            message = message.partition(" [SQL: ")[0]  # of Dagster's own database
            scope = _Scope.BATCH if kind in _OF_ONE_BATCH else _Scope.ALL
            yield message or kind, _Scope.MACHINE if kind in _OF_MACHINE else scope


def _is_dagsters(kind: str | None) -> bool:
    """Whether an error only says that another one, its cause, ended a step."""
    return (kind or "").startswith(("Dagster", "RetryRequested"))


_OF_MACHINE = (
    *("OSError", "MemoryLimitError", "PermissionError", "ConnectionError", "TimeoutError"),
    *("OperationalError", "DatabaseError"),  # of Dagster's own database
)
_OF_ONE_BATCH = ("DagsterAssetCheckFailedError", "IntegrityError", "ConflictError", "RangeError")
