"""Whether the log names what it should: it was lost, or is older than the volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from transforms.block_range import contiguous_runs
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import (
    MANIFESTS,
    blocks_of,
    is_held,
    listed,
    named_file,
)
from transforms.warehouse.manifests.manifest import read_about


def check_not_older(
    backing: Backing, snapshot: Snapshot | None, manifests: Iterable[ObjectInfo] | None = None
) -> None:
    """Raise `IntegrityError` where volumes were built upon a later snapshot than the newest.

    Loading their segments again, or deleting what the log does not name, would be wrong then.
    `manifests` are the listed ones, where they were listed already.
    """
    if manifests is None:
        manifests = listed(backing.store, (MANIFESTS,))[MANIFESTS]
    problem = later_volume(backing, snapshot, manifests)
    # Otherwise another process has gone on, and built them just now.
    if problem and backing.log.numbers()[-1:] == ([snapshot.number] if snapshot else []):
        raise IntegrityError(
            f"{problem}: a backup was put there, or snapshots were lost; nothing was changed: run "
            "strata repair, which takes in the volumes that the log does not name"
        )


def later_volume(backing: Backing, snapshot: Snapshot | None, infos: Iterable[ObjectInfo]) -> str:
    """Which of the listed manifests was made upon a later snapshot than this one; "" if none.

    Only files are read that it does not name, with blocks that named volumes lack: normally there
    are none. What a killed load left was built upon a snapshot that is still in the log; volumes of
    another warehouse, and what cannot be read, do not count.
    """
    number, place = snapshot.number if snapshot else 0, backing.store.describe()
    for info in lacking(infos, snapshot):
        with suppress(IntegrityError, FileNotFoundError):
            file = named_file(info.key, info.size)
            backing.files.bring([file])
            about = read_about(backing.files.path(file), file)
            is_ours = snapshot is None or about.warehouse == snapshot.warehouse
            if is_ours and about.snapshot > number:
                ends = f"ends with snapshot {number}" if number else "is lost"
                return (
                    f"the log of {place} {ends}, and {info.key}, which it does not name, was built "
                    f"upon snapshot {about.snapshot}"
                )
    return ""


def lacking(infos: Iterable[ObjectInfo], snapshot: Snapshot | None) -> Iterator[ObjectInfo]:
    """The listed manifests that a snapshot does not name, with blocks that its volumes lack."""
    history = snapshot.history() if snapshot else []
    keys = {volume.key for volume in history}
    runs = [*contiguous_runs(volume.blocks for volume in history)]
    for info in infos:
        if info.key not in keys and blocks_of(info.key) and not is_held(info.key, runs):
            yield info
