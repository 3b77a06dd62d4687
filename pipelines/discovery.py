"""The sensor: what the source has becomes partitions, what is left to do becomes runs."""

import hashlib
from datetime import UTC, datetime

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,
)

from exporters.settings import dagster_home
from pipelines.assets.same_warehouse import warehouse_tags
from pipelines.batches import plan_batches
from pipelines.checks import status_evaluations
from pipelines.instance import end_killed_runs
from pipelines.partitions import ADDED_AT_ONCE, SEGMENTS, missing_partitions
from pipelines.run_requests import run_requests
from pipelines.settings import Settings
from pipelines.site.site import Site
from pipelines.site.status import SiteStatus, site_status


def segment_sensor(job: UnresolvedAssetJobDefinition, settings: Settings) -> dg.SensorDefinition:
    """Look at the source every `poll_seconds`; request runs of at most `batch` segments."""

    @dg.sensor(
        name="new_segments",
        job=job,
        minimum_interval_seconds=settings.poll_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists the source, adds its segments as partitions and requests runs for what "
        "is not loaded or not published.",
    )
    def new_segments(
        context: dg.SensorEvaluationContext, site: dg.ResourceParam[Site]
    ) -> dg.SensorResult:
        end_killed_runs(context.instance, dagster_home())
        status = site_status(site)
        site.warehouse.record_refusals(status.survey)
        present = context.instance.get_dynamic_partitions(str(SEGMENTS.name))
        fresh = missing_partitions(present, status.known)
        batches = plan_batches(status.to_do, [*present, *fresh], settings.batch)
        tags = warehouse_tags(site) if status.to_do else {}
        requests = list(run_requests(context.instance, batches, datetime.now(UTC), tags))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _skip_reason(status),
            dynamic_partitions_requests=[
                SEGMENTS.build_add_request(fresh[at : at + ADDED_AT_ONCE])
                for at in range(0, len(fresh), ADDED_AT_ONCE)
            ],
            asset_events=_changed_evaluations(context.cursor, status, settings.lag_blocks),
            cursor=_cursor(status),
        )

    return new_segments


def _skip_reason(status: SiteStatus) -> str:
    done, known, waiting = len(status.published), len(status.known), len(status.to_do)
    return (
        f"{done} of {known} segments are published; {waiting} are in runs or wait to be tried "
        f"again; {len(status.refused)} files cannot be used"
    )


def _changed_evaluations(
    previous: str | None, status: SiteStatus, lag_blocks: int
) -> list[dg.AssetCheckEvaluation]:
    """The checks of a status that changed; `previous` is the cursor of the one before."""
    return [] if previous == _cursor(status) else status_evaluations(status, lag_blocks)


def _cursor(status: SiteStatus) -> str:
    refused = hashlib.sha256(repr(status.refused).encode()).hexdigest()
    return f"{status.blocks_behind} {refused[:16]}"
