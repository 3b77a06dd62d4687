"""The sensor: what the source has becomes partitions, what is left to do becomes runs."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from exporters.locations import dagster_home
from pipelines.batches import plan_batches
from pipelines.figures import write_figures
from pipelines.instance import end_killed_runs, runs_here
from pipelines.partitions import SEGMENTS, addable, missing_partitions, partitions_from
from pipelines.run_requests import run_requests
from pipelines.settings import Settings
from pipelines.site.machine import machine_problem
from pipelines.site.segment_status import SiteStatus, site_status
from pipelines.site.site import Site


def segment_sensor(job: str, settings: Settings) -> dg.SensorDefinition:
    """Look at the source every `poll_seconds`; request runs of at most `batch` segments."""

    @dg.sensor(
        name="new_segments",
        job_name=job,
        minimum_interval_seconds=settings.poll_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists the source, adds its segments as partitions and requests runs for what "
        "is not loaded or not published.",
    )
    def new_segments(
        context: dg.SensorEvaluationContext, site: dg.ResourceParam[Site]
    ) -> dg.SensorResult:
        instance = context.instance
        end_killed_runs(instance, dagster_home())
        try:
            status = site_status(site)
        except Exception:
            write_figures(site, None, instance)
            raise
        write_figures(site, status, instance)
        site.warehouse.record_refusals(status.survey)
        cursor = str(len(status.known))
        order, fresh = _partitions(instance, status, is_new=context.cursor != cursor)
        batches = plan_batches(status.to_do, order, settings.batch)
        requests = list(run_requests(instance, batches, datetime.now(UTC)))
        problem = machine_problem(site) if requests and runs_here(instance) else ""
        return dg.SensorResult(
            run_requests=[] if problem else requests,
            skip_reason=_skip_reason(status, problem) if problem or not requests else None,
            dynamic_partitions_requests=[*map(SEGMENTS.build_add_request, addable(fresh))],
            cursor=cursor,
        )

    return new_segments


def _skip_reason(status: SiteStatus, problem: str) -> str:
    if problem:
        return f"no run is requested: {problem}"
    published, total, waiting = len(status.published), len(status.known), len(status.to_do)
    return (
        f"{published} of {total} segments are published; {waiting} are in runs or wait to be tried "
        f"again; {len(status.refused)} files cannot be used"
    )


def _partitions(
    instance: dg.DagsterInstance, status: SiteStatus, *, is_new: bool
) -> tuple[list[str], list[str]]:
    """The order of partitions, as far as it matters to what is to do; those to add come last.

    All of them are read only where there are more segments than at the last look: it has added
    what was missing.
    """
    if is_new:
        present = instance.get_dynamic_partitions(str(SEGMENTS.name))
        fresh = missing_partitions(present, status.known)
    else:
        present = partitions_from(instance, [blocks.key for blocks in status.to_do])
        fresh = missing_partitions(present, status.to_do)
    return [*present, *fresh], fresh
