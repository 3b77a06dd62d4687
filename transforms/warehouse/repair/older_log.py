"""Whether the log is older than the volumes: a backup of the log was put beside newer volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from transforms.block_range import contiguous_runs
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.manifest import read_about
from transforms.warehouse.manifests.manifest_rows import Origin
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.volume_description import listed, volume_blocks


def check_not_older(
    backing: Backing, snapshot: Snapshot | None, manifests: Iterable[ObjectInfo] | None = None
) -> None:
    """Raise `IntegrityError` where volumes were built upon a later snapshot than the newest.

    Loading their segments again, or deleting what the log does not name, would be wrong then. Only
    files that no snapshot names are looked at, and only those with blocks that named volumes lack:
    normally there are none. A killed load leaves a volume that was built upon a snapshot which is
    still in the log, and does not count; nor does a volume of another warehouse. `manifests` are
    the listed ones, where they were listed already.
    """
    while snapshot is not None:
        later = later_volumes(backing, snapshot, snapshot.number, manifests)
        if not later:
            return
        # Another process may have gone on and built them just now.
        backing.log.look_again()
        newest = backing.log.newest()
        if newest is None or newest.number == snapshot.number:
            raise IntegrityError(older_log(backing, snapshot, later))
        snapshot = newest


def older_log(backing: Backing, snapshot: Snapshot, later: dict[str, Origin]) -> str:
    """The sentence that says so."""
    key, origin = max(later.items(), key=lambda item: item[1].snapshot)
    return (
        f"the log of {backing.store.describe()} is older than its volumes: it ends with snapshot "
        f"{snapshot.number}, and {key}, which it does not name, was built upon snapshot "
        f"{origin.snapshot}. A backup was put there, or snapshots were lost; nothing was "
        "changed. strata repair says what is there and lets you choose"
    )


def later_volumes(
    backing: Backing,
    snapshot: Snapshot,
    number: int,
    manifests: Iterable[ObjectInfo] | None = None,
) -> dict[str, Origin]:
    """Volumes that were built upon a later snapshot than this number's, by key, with their origin.

    Those that `snapshot` names, or whose blocks it has, are not looked at.
    """
    later: dict[str, Origin] = {}
    infos = listed(backing.store, "manifests") if manifests is None else manifests
    for info in lacking(infos, snapshot.named_keys(), snapshot.history()):
        origin = _origin(backing, info)
        if origin and origin.warehouse == snapshot.warehouse and origin.snapshot > number:
            later[info.key] = origin
    return later


def lacking(
    manifests: Iterable[ObjectInfo], keys: set[str], volumes: list[Volume]
) -> Iterator[ObjectInfo]:
    """Those that are not named and have blocks which the volumes of history lack."""
    runs = list(contiguous_runs(volume.blocks for volume in volumes))
    for info in manifests:
        blocks = volume_blocks(info.key)
        if info.key not in keys and blocks and not any(run.holds(blocks) for run in runs):
            yield info


def _origin(backing: Backing, info: ObjectInfo) -> Origin | None:
    """What a manifest says; None where it cannot be read."""
    with suppress(IntegrityError, FileNotFoundError):
        file = StoredFile(info.key, info.size, info.key.split(".")[-2])
        backing.files.bring([file])
        return read_about(backing.files.path(file)).origin
    return None
