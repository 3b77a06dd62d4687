"""The asset of the spam captures that lie beside the segments in the source."""

import hashlib

import dagster as dg

from pipelines.assets.keys import CAPTURES
from pipelines.instance import runs_here
from pipelines.run_requests import QUIET
from pipelines.settings import Settings
from pipelines.site.machine import machine_problem
from pipelines.site.site import Site
from pipelines.step_failures import retried_if_transient
from transforms.warehouse.capture_file import (
    load_captures,
    refused_captures,
    unread_captures,
)

GROUP = "captures"


def captures_asset() -> dg.AssetsDefinition:
    """The table of captures: of each party the newest one of its newest epoch."""

    @dg.asset(
        key=CAPTURES,
        # A group of its own: loads of segments must not wait for it, nor start it.
        group_name=GROUP,
        kinds={"duckdb"},
        description="Parties' spam counters as core nodes report them; from `spam/` in the source.",
    )
    def spam_captures(
        context: dg.AssetExecutionContext, site: dg.ResourceParam[Site]
    ) -> dg.MaterializeResult[None]:
        with retried_if_transient(context.retry_number):
            report = load_captures(site.warehouse, site.source)
        refused = refused_captures(site.warehouse)
        for line in refused:
            context.log.warning("%s, line %d: %s", line.file, line.line, line.reason)
        return dg.MaterializeResult[None](
            metadata={
                "files": report.files,
                "captures": report.captures,
                "refused_lines": len(refused),
            }
        )

    return spam_captures


def captures_sensor(job: str, settings: Settings) -> dg.SensorDefinition:
    """Look for new files of captures; a run that failed is asked for again an hour later."""

    @dg.sensor(
        name="new_captures",
        job_name=job,
        minimum_interval_seconds=settings.poll_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists `spam/` in the source and requests a run where there is a new file.",
    )
    def new_captures(
        context: dg.SensorEvaluationContext, site: dg.ResourceParam[Site]
    ) -> dg.SensorResult:
        if site.warehouse.catalog() is None:
            return dg.SensorResult(skip_reason="no segment is loaded yet")
        fresh = unread_captures(site.warehouse, site.source)
        if not fresh:
            return dg.SensorResult(skip_reason="no new captures")
        problem = machine_problem(site) if runs_here(context.instance) else ""
        if problem:
            return dg.SensorResult(skip_reason=f"no run is requested: {problem}")
        hour = int(context.last_tick_completion_time or 0) // 3600
        key = hashlib.sha256(repr((fresh, hour)).encode()).hexdigest()[:16]
        return dg.SensorResult(run_requests=[dg.RunRequest(f"captures {key}", QUIET)])

    return new_captures
