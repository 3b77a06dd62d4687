"""Running the jobs here and now, in this process, as real runs of a Dagster instance."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from pipelines.assembly import definitions
from pipelines.batches import Batch, plan_batches
from pipelines.figures import write_figures
from pipelines.instance import (
    COMMAND_LINE_TAG,
    add_partitions,
    only_command_line,
    open_instance,
)
from pipelines.jobs import load_and_publish
from pipelines.lasting_objects import lasting_objects
from pipelines.machine_name import machine_tags
from pipelines.old_runs import remove_old_runs
from pipelines.run_requests import QUIET, batch_tags
from pipelines.site.segment_status import SiteStatus, site_status
from pipelines.site.site import LISTED_SECONDS, Site
from pipelines.step_failures import Scope, step_failures
from transforms import interrupts


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run of one batch: its id, and why it failed unless it is empty.

    `affects_all` says that the others would fail the same way: a setting, a full disk, no network;
    `of_machine` that it is one of the latter two, or that the source does not give a file.
    """

    batch: Batch
    run_id: str
    failure: str = ""
    affects_all: bool = False
    of_machine: bool = False


def run_everything(
    site: Site, status: SiteStatus, home: Path, report: Callable[[FinishedRun], object]
) -> None:
    """Load and publish all that `status` leaves to do, a run for each batch; `report` gets each.

    What a failed run left undone is tried again, without the segments that were refused meanwhile,
    else in halves: in the end only what cannot be done is left, and none of it stops the others.
    """
    with lasting_objects():
        defs = definitions(site.settings)
    with open_instance(home) as instance, only_command_line(instance, home):
        partitions = add_partitions(instance, status.known)
        job = defs.resolve_job_def(load_and_publish.name)
        waiting = deque(plan_batches(status.to_do, site.settings.batch, partitions))
        while waiting:
            batch = waiting.popleft()
            finished = _run(site, instance, job, batch)
            if interrupts.requested():  # Dagster notes it, and goes on
                raise KeyboardInterrupt
            report(finished)
            write_figures(site, status, instance)
            if finished.affects_all:
                return
            if finished.failure:
                waiting.extendleft(reversed(_rest(site, batch, partitions)))
        remove_old_runs(instance, datetime.now(UTC))  # where no daemon does so


def record_look(site: Site, status: SiteStatus | None, home: Path) -> None:
    """Write for Prometheus what was seen; see `write_figures`."""
    with open_instance(home) as instance:
        write_figures(site, status, instance)


def _rest(site: Site, batch: Batch, partitions: Sequence[str]) -> Sequence[Batch]:
    """What to try after a batch failed: always less than the batch.

    What only the lake refuses it refuses in halves, too.
    """
    status = site_status(site, LISTED_SECONDS)
    rest = frozenset(status.to_do) & frozenset(batch.segments)
    if len(rest) == len(batch.segments):
        return batch.halves() if rest & status.unarchived else ()
    return list(plan_batches(rest, len(batch.segments), partitions))


def _run(
    site: Site, instance: dg.DagsterInstance, job: dg.JobDefinition, batch: Batch
) -> FinishedRun:
    # Its steps go by one snapshot, and by what they commit themselves.
    with site.warehouse.one_look():
        result = job.execute_in_process(
            run_config=QUIET,
            instance=instance,
            tags={**batch_tags(batch), **COMMAND_LINE_TAG, **machine_tags()},
            resources={"site": site},
            raise_on_error=False,
        )
    if result.success:
        return FinishedRun(batch, result.run_id)
    reasons = dict(step_failures(result.all_events))
    scopes = set(reasons.values())
    return FinishedRun(
        batch,
        result.run_id,
        "; ".join(reasons) or "see the run's log",
        affects_all=scopes.isdisjoint((Scope.BATCH, Scope.FILES)),
        of_machine=not scopes.isdisjoint((Scope.FILES, Scope.MACHINE)),
    )
