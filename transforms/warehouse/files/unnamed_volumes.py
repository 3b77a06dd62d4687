"""Volumes that the log does not name: it was lost, or is older than they are."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import LOST_SNAPSHOTS
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import MANIFESTS, absent_files, listed, named_file
from transforms.warehouse.manifests.manifest import read_about
from transforms.warehouse.manifests.shapes import Volume

UNNAMED_SECONDS = 3600.0
"""How old a whole volume is that no load is about to name."""


def check_not_lost(backing: Backing) -> None:
    """Raise `IntegrityError` if there are volumes and no log: a load makes the log first."""
    volumes = Snapshot().lacking(listed(backing.store, (MANIFESTS,))[MANIFESTS])
    if volumes and not backing.log.numbers():
        place = backing.store.describe()
        what = f"the log of {place} is lost, and {volumes[0].key} is there"
        raise IntegrityError(f"{what}: {LOST_SNAPSHOTS}")


def unnamed_volumes(
    backing: Backing, snapshot: Snapshot, manifests: Iterable[ObjectInfo] | None = None
) -> list[Volume]:
    """The volumes that are whole, and whose blocks the log has not held for an hour.

    `manifests` are the listed ones, if they were listed already. Only those are read that the log
    does not name: normally there are none. What cannot be read does not count.
    """
    if manifests is None:
        manifests = listed(backing.store, (MANIFESTS,))[MANIFESTS]
    lacking = snapshot.lacking(manifests)
    oldest = backing.store.now() - UNNAMED_SECONDS if lacking else 0.0
    volumes: list[Volume] = []
    for info in lacking:
        if info.modified < oldest:
            with suppress(IntegrityError, FileNotFoundError):
                file = named_file(info.key, info.size)
                _, volume = read_about(backing.files.bring([file])[0], file)
                if not absent_files(backing.store, volume.row_files):
                    volumes.append(volume)
    return volumes
