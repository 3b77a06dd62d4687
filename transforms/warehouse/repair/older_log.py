"""Whether the log names what it should: it was lost, or is older than the volumes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.stores.store import Store
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.newest_snapshot import CHOICE, LogEnd
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.manifest import read_about

_NAME = re.compile(r"(?:manifests|state)/(\d+)-(\d+)\.[0-9a-f]{64}\.parquet")


@dataclass(frozen=True, slots=True)
class LogState:
    """What there is of the log, whatever its condition, and of volumes, named or not.

    `later` are manifests that were built upon a later snapshot than the newest, with its number;
    `conflict` says why the log is not the one that this machine has seen, or is older than these.
    """

    infos: Sequence[ObjectInfo]
    last_seen: Snapshot | None
    end: LogEnd
    later: Mapping[str, int]
    conflict: str


def read_state(backing: Backing) -> LogState:
    """Read the log. Raises `ConfigError` for one of a newer release, and for an absent bucket."""
    # In this order: other processes may go on meanwhile.
    infos, last_seen = listed_volumes(backing.store), backing.log.last_seen()
    end = backing.log.end()
    later = _later_volumes(backing, end.sound, end.top, infos) if end.sound else {}
    conflict = end.conflict(last_seen, f"the log of {backing.store.describe()}")
    if later and not conflict:
        conflict = _older_log(backing, end.top, later)
    return LogState(infos, last_seen, end, later, conflict)


def check_not_lost(backing: Backing) -> None:
    """Raise `IntegrityError` where there are volumes, and no log that names them."""
    # A load that has just begun made its first snapshot before its volumes.
    if listed_volumes(backing.store) and not backing.log.numbers():
        raise IntegrityError(
            f"{backing.store.describe()} has volumes and no log that names them: it was lost; run "
            "strata repair, which makes it again from them"
        )


def check_not_older(
    backing: Backing, snapshot: Snapshot | None, manifests: Iterable[ObjectInfo] | None = None
) -> None:
    """Raise `IntegrityError` where volumes were built upon a later snapshot than the newest.

    Loading their segments again, or deleting what the log does not name, would be wrong then.
    `manifests` are the listed ones, where they were listed already.
    """
    if snapshot is None:
        return
    infos = listed(backing.store, "manifests") if manifests is None else manifests
    later = _later_volumes(backing, snapshot, snapshot.number, infos)
    # Otherwise another process has gone on, and built them just now.
    if later and backing.log.numbers()[-1:] == [snapshot.number]:
        raise IntegrityError(f"{_older_log(backing, snapshot.number, later)}: {CHOICE}")


def _later_volumes(
    backing: Backing, snapshot: Snapshot, top: int, infos: Iterable[ObjectInfo]
) -> dict[str, int]:
    """The listed manifests that were built upon a later snapshot than the newest, with its number.

    `snapshot` is the newest sound one, `top` the number of the newest. Only files are read that
    it does not name, with blocks that named volumes lack: normally there are none. What a killed
    load left was built upon a snapshot that is still in the log; volumes of another warehouse, and
    what cannot be read, do not count.
    """
    later: dict[str, int] = {}
    for info in lacking(infos, snapshot):
        with suppress(IntegrityError, FileNotFoundError):
            file = StoredFile(info.key, info.size, info.key.split(".")[-2])
            backing.files.bring([file])
            origin = read_about(backing.files.path(file)).origin
            if origin.warehouse == snapshot.warehouse and origin.snapshot > top:
                later[info.key] = origin.snapshot
    return later


def _older_log(backing: Backing, top: int, later: Mapping[str, int]) -> str:
    """The sentence that says so."""
    key = max(later, key=lambda key: later[key])
    return (
        f"the log of {backing.store.describe()} is older than its volumes: it ends with snapshot "
        f"{top}, and {key}, which it does not name, was built upon snapshot {later[key]}"
    )


def volume_blocks(key: str) -> BlockRange | None:
    """The blocks that a manifest's name says; None for another file."""
    match = _NAME.fullmatch(key)
    return BlockRange(int(match[1]), int(match[2])) if match else None


def listed_volumes(store: Store) -> list[ObjectInfo]:
    """The manifests that lie in a warehouse, named or not, those of states included."""
    infos = (info for folder in ("manifests", "state") for info in listed(store, folder))
    return [info for info in infos if volume_blocks(info.key)]


def listed(store: Store, folder: str) -> Iterator[ObjectInfo]:
    """The files in a folder of the warehouse."""
    with suppress(ConfigError):  # the folder of the whole store is not there
        yield from store.list(f"{folder}/")


def lacking(infos: Iterable[ObjectInfo], snapshot: Snapshot) -> Iterator[ObjectInfo]:
    """The listed manifests that a snapshot does not name, with blocks that its volumes lack."""
    keys = snapshot.named_keys()
    runs = list(contiguous_runs(volume.blocks for volume in snapshot.history()))
    for info in infos:
        blocks = volume_blocks(info.key) if info.key.startswith("manifests/") else None
        if info.key not in keys and blocks and not any(run.holds(blocks) for run in runs):
            yield info
