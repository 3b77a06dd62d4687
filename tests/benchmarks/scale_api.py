"""What the read API costs beside few and beside many: its start, its memory, a new snapshot."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import replace

from api.core.server_settings import ServeSettings
from api.service import Service
from exporters.locations import Locations
from tests.benchmarks.scale_site import Place
from transforms.warehouse.log.log import Log
from transforms.warehouse.log.snapshot import following
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse_address import open_warehouse

REFRESHES = 5


def start(place: Place) -> None:
    """Open all that one process of the server holds, until it could say that it is ready."""
    service = _service(place)
    assert service.health.is_ready
    gc.collect()


def hide_volumes(place: Place) -> None:
    """Have a server seen a snapshot that lacks the newest volumes."""
    log = open_warehouse(place.settings.warehouse).backing.log
    newest = log.begin()
    hidden = newest.history[-REFRESHES:]
    _write(log, (volume for volume in newest.volumes if volume not in hidden))
    start(place)


def refresh(place: Place) -> None:
    """Start, and go over to snapshots that each have one volume more."""
    service = _service(place)
    log = service.warehouse.backing.log
    whole = log.read(log.begin().number - 1)
    hidden = [volume for volume in whole.history if volume not in log.begin().volumes]
    for volume in hidden:
        _write(log, [*log.begin().volumes, volume])
        assert service.snapshots.refresh()


def _write(log: Log, volumes: Iterable[Volume]) -> None:
    """Make the next snapshot one of these volumes; what it lacks was never there."""
    newest = log.begin()
    after = following(newest, newest.with_volumes(volumes), newest.time)
    assert log.create(replace(after, losses=()))


def _service(place: Place) -> Service:
    locations = Locations(
        source="", warehouse=place.settings.warehouse, archive=place.settings.archive
    )
    return Service(ServeSettings(locations))
