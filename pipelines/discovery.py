"""The sensor: what the source has becomes partitions, what is left to do becomes runs."""

from __future__ import annotations

import hashlib
import time
from array import array
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from exporters.locations import dagster_home
from pipelines.assets.same_warehouse import warehouse_tags
from pipelines.batches import plan_batches
from pipelines.checks import status_evaluations
from pipelines.instance import end_killed_runs, runs_here
from pipelines.partitions import (
    ADDED_AT_ONCE,
    SEGMENTS,
    missing_partitions,
    partitions_from,
)
from pipelines.run_figures import write_runs
from pipelines.run_log import log_ended_runs
from pipelines.run_requests import run_requests
from pipelines.settings import Settings
from pipelines.site.machine import machine_problem
from pipelines.site.segment_status import SiteStatus
from pipelines.site.site import Site
from pipelines.site.textfiles import measured_status


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
        end_killed_runs(context.instance, dagster_home())
        status = measured_status(site)
        write_runs(site, context.instance, datetime.now(UTC))
        site.warehouse.record_refusals(status.survey)
        before = _Cursor.read(context.cursor)
        ended = log_ended_runs(context.instance, before.ended)
        now = _Cursor.of(status, ended)
        order, fresh = _partitions(context.instance, status, is_new=before.segments != now.segments)
        batches = plan_batches(status.to_do, order, settings.batch)
        tags = warehouse_tags(site) if status.to_do else {}
        requests = list(run_requests(context.instance, batches, datetime.now(UTC), tags))
        problem = machine_problem(site) if requests and runs_here(context.instance) else ""
        return dg.SensorResult(
            run_requests=[] if problem else requests,
            skip_reason=_skip_reason(status, problem) if problem or not requests else None,
            dynamic_partitions_requests=[
                SEGMENTS.build_add_request(fresh[at : at + ADDED_AT_ONCE])
                for at in range(0, len(fresh), ADDED_AT_ONCE)
            ],
            asset_events=[]
            if before.state == now.state
            else status_evaluations(status.survey, status.ids, settings.lag_blocks),
            cursor=str(now),
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


@dataclass(frozen=True, slots=True)
class _Cursor:
    """What a look saw, to tell whether the next one sees something else: the sensor's cursor.

    `state` is a digest of what checks tell, and `segments` one of the partitions; `ended` is when
    the newest run ended that the log has a line of.
    """

    state: str
    segments: str
    ended: float

    @classmethod
    def read(cls, cursor: str | None) -> _Cursor:
        """What the cursor says; nothing at the first look."""
        state, segments, ended = (cursor or f"- - {time.time()}").split()
        return cls(state, segments, float(ended))

    @classmethod
    def of(cls, status: SiteStatus, ended: float) -> _Cursor:
        """What is seen now."""
        numbers = array("q", (n for blocks in status.known for n in (blocks.first, blocks.last)))
        told = (status.blocks_behind, len(status.to_do), status.refused)
        return cls(_digest(repr(told).encode()), _digest(numbers.tobytes()), ended)

    def __str__(self) -> str:
        return f"{self.state} {self.segments} {self.ended}"


def _digest(what: bytes) -> str:
    return hashlib.sha256(what).hexdigest()[:16]


def _partitions(
    instance: dg.DagsterInstance, status: SiteStatus, *, is_new: bool
) -> tuple[list[str], list[str]]:
    """The order of partitions, as far as it matters to what is to do; those to add come last.

    All of them are read only where the segments are others than at the last look: it has added
    what was missing.
    """
    if is_new:
        present = instance.get_dynamic_partitions(str(SEGMENTS.name))
        fresh = missing_partitions(present, status.known)
    else:
        present = partitions_from(instance, [blocks.key for blocks in status.to_do])
        fresh = missing_partitions(present, status.to_do)
    return [*present, *fresh], fresh
