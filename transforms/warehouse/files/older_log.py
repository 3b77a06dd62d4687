"""Whether the log names what it should: it was lost, or is older than the volumes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import MANIFESTS, listed, named_file
from transforms.warehouse.manifests.manifest import read_about


def check_not_older(
    backing: Backing, snapshot: Snapshot, manifests: Iterable[ObjectInfo] | None = None
) -> None:
    """Raise `IntegrityError` where volumes were built upon a later snapshot than the newest.

    Their segments would be loaded again, or lack where the source has them no more. `manifests`
    are the listed ones, where they were listed already.
    """
    if manifests is None:
        manifests = listed(backing.store, (MANIFESTS,))[MANIFESTS]
    problem = later_volume(backing, snapshot, manifests)
    # Otherwise another process has gone on, and built them just now.
    if problem and backing.log.numbers()[-1:] == ([snapshot.number] if snapshot.number else []):
        raise IntegrityError(
            f"{problem}: a backup was put there, or snapshots were lost; nothing was changed: run "
            "strata repair, which takes in the volumes that the log does not name"
        )


def later_volume(backing: Backing, snapshot: Snapshot, infos: Iterable[ObjectInfo]) -> str:
    """Which of the listed manifests was made upon a later snapshot than this one; "" if none.

    Only files are read that it does not name, with blocks that named volumes lack: normally there
    are none. What a killed load left was built upon a snapshot that is still in the log; what
    cannot be read does not count.
    """
    last, place = snapshot.number, backing.store.describe()
    for info in snapshot.lacking(infos):
        with suppress(IntegrityError, FileNotFoundError):
            file = named_file(info.key, info.size)
            number, _ = read_about(backing.files.bring([file])[0], file)
            if number > last:
                ends = f"ends with snapshot {last}" if last else "is lost"
                return (
                    f"the log of {place} {ends}, and {info.key}, which it does not name, was built "
                    f"upon snapshot {number}"
                )
    return ""
