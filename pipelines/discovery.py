"""The sensor: what the source has becomes partitions, what is left to do becomes runs."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from exporters.locations import dagster_home
from pipelines.batches import plan_batches
from pipelines.figures import write_figures
from pipelines.instance import end_killed_runs, runs_here
from pipelines.partitions import SEGMENTS, addable, missing_partitions
from pipelines.run_requests import run_requests
from pipelines.settings import Settings
from pipelines.site.machine import machine_problem
from pipelines.site.segment_status import SiteStatus, site_status
from pipelines.site.site import Site
from transforms.collector import collector_paused


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
    @collector_paused()
    def new_segments(
        context: dg.SensorEvaluationContext, site: dg.ResourceParam[Site]
    ) -> dg.SensorResult:
        instance = context.instance
        end_killed_runs(instance, dagster_home())
        status = _status(site, instance)
        present = instance.get_dynamic_partitions(str(SEGMENTS.name))
        fresh = missing_partitions(present, status.known)
        batches = plan_batches(status.to_do, settings.batch, [*present, *fresh])
        requests = list(run_requests(instance, batches, present, datetime.now(UTC)))
        problem = machine_problem(site) if requests and runs_here(instance) else ""
        return dg.SensorResult(
            run_requests=[] if problem else requests,
            skip_reason=_skip_reason(status, problem) if problem or not requests else None,
            dynamic_partitions_requests=[*map(SEGMENTS.build_add_request, addable(fresh))],
        )

    return new_segments


def _status(site: Site, instance: dg.DagsterInstance) -> SiteStatus:
    """How the site is; what cannot be used is on record then, and Prometheus is told."""
    try:
        status = site_status(site)
    except Exception:
        write_figures(site, None, instance)
        raise
    write_figures(site, status, instance)
    site.warehouse.record_refusals(status.survey)
    return status


def _skip_reason(status: SiteStatus, problem: str) -> str:
    if problem:
        return f"no run is requested: {problem}"
    published, total, waiting = len(status.published), len(status.known), len(status.to_do)
    return (
        f"{published} of {total} segments are published; {waiting} are in runs or wait to be tried "
        f"again; {len(status.refused)} files cannot be used"
    )
