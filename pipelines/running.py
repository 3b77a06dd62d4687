"""Running the jobs here and now, in this process, as real runs of a Dagster instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import dagster as dg

from pipelines.batches import Batch, plan_batches
from pipelines.definitions import definitions
from pipelines.instance import (
    COMMAND_LINE_TAG,
    add_partitions,
    only_command_line,
    open_instance,
)
from pipelines.jobs import load_and_publish
from pipelines.requests import batch_tags
from pipelines.site import Site
from pipelines.standing import standing_of
from transforms.segments import BlockRange

Tell = Callable[[str], object]

# Dagster's own log goes to its event log; on the terminal it would drown everything else.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def run_everything(site: Site, home: Path, tell: Tell) -> None:
    """Load and publish all that is left to do, a run for each batch, until nothing more comes.

    A failed run does not stop the others. What it left undone is tried in one more pass, without
    the segments that were refused; a pass that changes nothing is the last one.
    """
    job = definitions(site.settings).resolve_job_def(load_and_publish.name)
    with open_instance(home) as instance, only_command_line(instance, home):
        done: Sequence[BlockRange] | None = None
        while True:
            standing = standing_of(site)
            if not standing.to_do or standing.to_do == done:
                return
            done = standing.to_do
            partitions = add_partitions(instance, standing.known)
            for batch in plan_batches(done, partitions, site.settings.batch):
                _run(job, instance, site, batch, tell)


def _run(
    job: dg.JobDefinition, instance: dg.DagsterInstance, site: Site, batch: Batch, tell: Tell
) -> None:
    result = job.execute_in_process(
        run_config=_QUIET,
        instance=instance,
        tags={**batch_tags(batch), **COMMAND_LINE_TAG},
        resources={"site": site},
        raise_on_error=False,
    )
    if result.success:
        tell(f"blocks {batch}: published {len(batch.segments)} segments (run {result.run_id[:8]})")
        return
    for event in result.filter_events(lambda event: event.is_step_failure):
        tell(f"blocks {batch}: {event.step_key}: {_reason(event)} (run {result.run_id[:8]})")


def _reason(event: dg.DagsterEvent) -> str:
    return str(event.event_specific_data)
