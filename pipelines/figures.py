"""`strata.prom`, the text file for Prometheus, which node_exporter's textfile collector shows.

Dagster's sensor and `strata run` write it at each look, so it grows old when they stop.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator

import dagster as dg
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from exporters.measures import (
    DISK_FREE,
    DISK_SIZE,
    HEIGHT,
    LAST_FAILED,
    LAST_LOOK,
    LOOK,
    LOST,
    TIME,
    WAITING,
    Figure,
    survey_figures,
)
from pipelines import jobs
from pipelines.site.machine import local_folders
from pipelines.site.segment_status import SiteStatus
from pipelines.site.site import Site
from transforms.files import new_file

_log = logging.getLogger(__name__)
_GOOD, _BAD = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE


def write_figures(site: Site, status: SiteStatus | None, instance: dg.DagsterInstance) -> None:
    """Write what was seen just now, whole or not at all, where a folder is set.

    No `status` means that the site could not be looked at. That the file cannot be written stops
    nothing: an alert tells of one that has grown old.
    """
    if site.settings.metrics is None:
        return
    figures = [Figure(LAST_LOOK, time.time()), *_disks(site), *_runs(instance), *_site(status)]
    path = site.settings.metrics / "strata.prom"
    try:
        with new_file(path, durable=False) as file:
            file.write(_prometheus_text(figures))
    except OSError as error:
        _log.warning("%s was not written, for Prometheus: %s", path, error)


def _prometheus_text(figures: list[Figure]) -> bytes:
    registry = CollectorRegistry()
    gauges = {
        measure: Gauge(
            f"strata_{measure.name}",
            measure.meaning,
            filter(None, [measure.label]),
            registry=registry,
        )
        for measure in dict.fromkeys(figure.measure for figure in figures)
    }
    for figure in figures:
        gauge = gauges[figure.measure]
        (gauge.labels(figure.case) if figure.case else gauge).set(figure.value)
    return generate_latest(registry)


def _site(status: SiteStatus | None) -> Iterator[Figure]:
    yield Figure(LOOK, status is not None and not status.survey.source_problem)
    if status is None:
        return
    yield from survey_figures(status.survey)
    yield Figure(WAITING, len(status.unpublished), "publish")
    yield Figure(WAITING, len(status.not_in_lake), "lake")
    yield Figure(LOST, len(status.lost))
    if status.loaded:
        yield Figure(HEIGHT, status.loaded[-1].last)
        if times := status.catalog.snapshot.history[-1].times:
            yield Figure(TIME, times[1] / 1e6)


def _disks(site: Site) -> Iterator[Figure]:
    """What is left on the file systems of the places that are folders of this machine."""
    for place, path in local_folders(site).items():
        if path.is_dir():
            usage = shutil.disk_usage(path)
            yield Figure(DISK_FREE, usage.free, place)
            yield Figure(DISK_SIZE, usage.total, place)


def _runs(instance: dg.DagsterInstance) -> Iterator[Figure]:
    """Of each job that was run, whether its last run failed."""
    for job in jobs.ALL:
        ended = dg.RunsFilter(job_name=job.name, statuses=[_GOOD, _BAD])
        for run in instance.get_runs(ended, limit=1):
            yield Figure(LAST_FAILED, run.status is _BAD, job.name)
