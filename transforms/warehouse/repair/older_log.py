"""Whether the log names what it should: it was lost, or is older than the volumes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
    """What there is of the log, whatever its condition, and of manifests, named or not.

    `latest` is the number of the last snapshot that anybody is known to have seen; `conflict` says
    why the log is not the one that this machine has seen, or is older than volumes.
    """

    infos: Sequence[ObjectInfo]
    last_seen: Snapshot | None
    end: LogEnd
    latest: int
    conflict: str


def read_state(backing: Backing) -> LogState:
    """Read the log. Raises `ConfigError` for one of a newer release, and for an absent bucket."""
    # In this order: other processes may go on meanwhile.
    infos, last_seen = listed_volumes(backing.store), backing.log.last_seen()
    end, place = backing.log.end(), f"the log of {backing.store.describe()}"
    number, sentence = _later(backing, end.sound, end.top, infos) if end.sound else (0, "")
    seen = last_seen.number if last_seen else 0
    conflict = end.conflict(last_seen, place) or sentence
    return LogState(infos, last_seen, end, max(end.top, seen, number), conflict)


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
    _, sentence = _later(backing, snapshot, snapshot.number, infos)
    # Otherwise another process has gone on, and built them just now.
    if sentence and backing.log.numbers()[-1:] == [snapshot.number]:
        raise IntegrityError(f"{sentence}: {CHOICE}")


def _later(
    backing: Backing, snapshot: Snapshot, top: int, infos: Iterable[ObjectInfo]
) -> tuple[int, str]:
    """The last snapshot that unnamed manifests were built upon; a sentence if it is after `top`.

    `snapshot` is the newest sound one, `top` the number of the newest. Only files are read that
    it does not name, with blocks that named volumes lack: normally there are none. What a killed
    load left was built upon a snapshot that is still in the log; volumes of another warehouse, and
    what cannot be read, do not count.
    """
    number, key = top, ""
    for info in lacking(infos, snapshot):
        with suppress(IntegrityError, FileNotFoundError):
            file = listed_file(info)
            backing.files.bring([file])
            about = read_about(backing.files.path(file))
            if about.warehouse == snapshot.warehouse and about.snapshot > number:
                number, key = about.snapshot, info.key
    sentence = (
        f"the log of {backing.store.describe()} is older than its volumes: it ends with snapshot "
        f"{top}, and {key}, which it does not name, was built upon snapshot {number}"
    )
    return number, sentence if key else ""


def volume_blocks(key: str) -> BlockRange | None:
    """The blocks that a manifest's name says; None for another file."""
    match = _NAME.fullmatch(key)
    return BlockRange(int(match[1]), int(match[2])) if match else None


def listed_file(info: ObjectInfo) -> StoredFile:
    """A listed file as its name describes it."""
    return StoredFile(info.key, info.size, info.key.split(".")[-2])


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
