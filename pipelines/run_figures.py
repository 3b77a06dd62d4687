"""What Prometheus is told of Dagster's runs: when each job ended well, how long, what waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import dagster as dg

from exporters.measures import (
    LAST_FAILED,
    LAST_LOOK,
    LAST_SUCCESS,
    RUNS,
    STEP_SECONDS,
    Figure,
)
from pipelines import jobs
from pipelines.site import textfiles
from pipelines.site.site import Site

_STEPS = {"load_tables": "load", "publish_tables": "publish", "publish_to_lake": "lake"}
_STATUSES = {
    "queued": [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED],
    "started": [
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ],
}
_GOOD, _BAD = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE


def write_runs(site: Site, instance: dg.DagsterInstance, now: datetime) -> None:
    """Write what was run until `now`, when what is to do was looked at, where a folder is set."""
    if site.settings.metrics is not None:
        figures = (Figure(LAST_LOOK, now.timestamp()), *_run_figures(instance))
        textfiles.write(site, textfiles.RUNS, figures)


def _run_figures(instance: dg.DagsterInstance) -> Iterator[Figure]:
    for status, statuses in _STATUSES.items():
        runs_filter = dg.RunsFilter(statuses=statuses)
        yield Figure(RUNS, instance.get_runs_count(runs_filter), status)
    for job in jobs.ALL:
        last = _newest(instance, job.name, _GOOD, _BAD)
        if last is None:
            continue
        failed = last.dagster_run.status is _BAD
        yield Figure(LAST_FAILED, failed, job.name)
        success = _newest(instance, job.name, _GOOD) if failed else last
        if success is not None:
            yield Figure(LAST_SUCCESS, success.end_time or 0, job.name)
            if job is jobs.load_and_publish:
                yield from _step_figures(instance, success.dagster_run.run_id)


def _newest(
    instance: dg.DagsterInstance, job: str, *statuses: dg.DagsterRunStatus
) -> dg.RunRecord | None:
    runs_filter = dg.RunsFilter(job_name=job, statuses=statuses)
    return next(iter(instance.get_run_records(runs_filter, limit=1)), None)


def _step_figures(instance: dg.DagsterInstance, run_id: str) -> Iterator[Figure]:
    for stats in instance.get_run_step_stats(run_id, [*_STEPS]):
        if stats.start_time and stats.end_time:
            seconds = stats.end_time - stats.start_time
            yield Figure(STEP_SECONDS, seconds, _STEPS[stats.step_key])
