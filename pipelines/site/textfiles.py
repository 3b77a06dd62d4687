"""Text files for Prometheus, which node_exporter's textfile collector shows.

Nothing here knows Dagster. `strata.prom` says how the site is: whoever looks at it writes it.
`strata-runs.prom` says what was run, and only who runs writes that: so it grows old where nobody
runs anything.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from exporters.archive.sound_documents import sound_index
from exporters.measures import (
    COLLECT_LEFT,
    DISK_FREE,
    DISK_SIZE,
    HEIGHT,
    LOOK,
    LOST,
    PUBLISHED_HEIGHT,
    PUBLISHED_TIME,
    TO_COLLECT,
    WAITING,
    Figure,
    Measure,
    survey_figures,
)
from pipelines.site.collecting import collection_state
from pipelines.site.machine import local_folders
from pipelines.site.segment_status import SiteStatus, site_status
from pipelines.site.site import Site
from transforms.files import new_file
from transforms.warehouse.files.lost_files import absent_files

_log = logging.getLogger(__name__)
STATUS, RUNS = "strata.prom", "strata-runs.prom"


def measured_status(site: Site) -> SiteStatus:
    """The site's status, which is written for Prometheus where a folder is set for that."""
    with noting_failure(site):
        status = site_status(site)
        write_status(site, status)
    return status


@contextmanager
def noting_failure(site: Site) -> Iterator[None]:
    """Write that the site could not be looked at, where the block fails."""
    try:
        yield
    except Exception:
        write(site, STATUS, (Figure(LOOK, 0), *_disks(site)))
        raise


def write_status(site: Site, status: SiteStatus) -> None:
    """Write how the site is."""
    if site.settings.metrics is not None:
        write(site, STATUS, (*_site_figures(site, status), *_disks(site)))


def write(site: Site, name: str, figures: Iterable[Figure]) -> None:
    """Write a file of the folder that is set, whole or not at all; where none is set, nothing.

    That it cannot be written stops nothing: an alert tells of a file that has grown old.
    """
    folder = site.settings.metrics
    if folder is None:
        return
    try:
        with new_file(folder / name, durable=False) as file:
            file.write(prometheus_text(figures))
    except OSError as error:
        _log.warning("%s was not written, for Prometheus: %s", folder / name, error)


def prometheus_text(figures: Iterable[Figure]) -> bytes:
    """Figures in Prometheus' text format."""
    # Whoever has no Prometheus need not wait for the import.
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    gauges: dict[Measure, Gauge] = {}
    for figure in figures:
        measure = figure.measure
        labels = [measure.label] if measure.label else []
        if measure not in gauges:
            name = f"strata_{measure.name}"
            gauges[measure] = Gauge(name, measure.meaning, labels, registry=registry)
        gauge = gauges[measure].labels(figure.case) if labels else gauges[measure]
        gauge.set(figure.value)
    return generate_latest(registry)


def _site_figures(site: Site, status: SiteStatus) -> Iterator[Figure]:
    yield Figure(LOOK, 1)
    yield from survey_figures(status.survey)
    yield Figure(WAITING, len(status.unpublished), "publish")
    yield Figure(WAITING, len(status.not_in_lake), "lake")
    if status.catalog is not None:
        snapshot = status.catalog.snapshot
        absent = absent_files(status.catalog.store, [*snapshot.readable(), *snapshot.indexes()])
        yield Figure(LOST, len(absent) or len(snapshot.losses))
    waiting = collection_state(site).figures
    for measure in (TO_COLLECT, COLLECT_LEFT):
        if measure.name in waiting:
            yield Figure(measure, waiting[measure.name])
    if status.loaded:
        yield Figure(HEIGHT, status.loaded[-1].last)
    if status.published:
        yield Figure(PUBLISHED_HEIGHT, status.published[-1].last)
        times = sound_index(site.archive(status.chain_id)).times
        if times is not None:
            yield Figure(PUBLISHED_TIME, datetime.fromisoformat(times[1]).timestamp())


def _disks(site: Site) -> Iterator[Figure]:
    """What is left on the file systems of the places that are folders of this machine."""
    for place, path in local_folders(site).items():
        if path.is_dir():
            usage = shutil.disk_usage(path)
            yield Figure(DISK_FREE, usage.free, place)
            yield Figure(DISK_SIZE, usage.total, place)
