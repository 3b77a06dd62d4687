"""What may be deleted from a warehouse, and when; everything else stays.

A file of segments is deleted only where named volumes hold all of its blocks, whatever the log says
of it: so nothing that is the only copy is ever lost to a log that was damaged or put back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from transforms.block_range import BlockRange, contiguous_runs
from transforms.objects import ObjectInfo
from transforms.stores.store import Store, asked_together
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import LOG, settled_snapshots, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot

GRACE_SECONDS = 24 * 3600.0
"""How long a file that the newest snapshot no longer names is kept for readers of older ones."""

ORPHAN_SECONDS = 7 * 24 * 3600.0
"""How old a file that no snapshot ever named is before it is deleted: longer than any run."""

FOLDERS = ("manifests", "data", "index", "state", "spam", "quarantine")
_BLOCKS = re.compile(
    r"(?:manifests|index|state|data/[a-z][a-z0-9_]*|quarantine(?=/\S+\.parquet))/(\d+)-(\d+)\."
)
_OTHERS = re.compile(r"spam/[0-9a-f]{64}\.duckdb|quarantine/.+\.[0-9a-f]{64}\.zip")


def folder_listing(store: Store) -> dict[str, list[ObjectInfo]]:
    """What lies in each folder of a warehouse; they are listed side by side."""
    folders = (*FOLDERS, LOG)
    infos = asked_together(store, lambda folder: [*store.list(f"{folder}/")], folders)
    return dict(zip(folders, infos, strict=True))


def sweep(
    backing: Backing,
    listing: Mapping[str, Sequence[ObjectInfo]],
    grace_seconds: float,
    orphan_seconds: float,
) -> list[str]:
    """Delete what nobody can be about to read; returns the keys. May be killed and run again.

    That is: what the log dropped longer ago than the grace period, files that were never named, and
    snapshots that were followed longer ago than the grace period.
    """
    store, log = backing.store, backing.log
    snapshot = log.newest()
    if snapshot is None:
        return []
    now = store.now()
    dropped = {file.key for file in snapshot.dropped}
    due = [file.key for file in snapshot.dropped if file.time < now - grace_seconds]
    orphans = (
        info.key
        for info in unnamed(listing, snapshot)
        if info.key not in dropped and info.modified < now - orphan_seconds
    )
    coverage = Coverage(snapshot, listing)
    gone = [key for key in (*due, *orphans) if coverage.is_removable(key)]
    gone += map(snapshot_key, settled_snapshots(listing[LOG], now - grace_seconds))
    for key in gone:
        store.delete(key)
    removed = set(gone)

    def change(newest: Snapshot) -> Snapshot | None:
        return newest if any(file.key in removed for file in newest.dropped) else None

    if not removed.isdisjoint(due):  # the log no longer lists these, unless another sweep did it
        log.commit(change, forget=removed)
    return gone


def unnamed(
    listing: Mapping[str, Sequence[ObjectInfo]], snapshot: Snapshot
) -> Iterator[ObjectInfo]:
    """The files of a warehouse's folders that a snapshot does not name."""
    keys = snapshot.named_keys()
    for folder in FOLDERS:
        yield from (info for info in listing[folder] if info.key not in keys)


class Coverage:
    """Which files hold nothing but what volumes that are there hold too."""

    def __init__(self, snapshot: Snapshot, listing: Mapping[str, Sequence[ObjectInfo]]) -> None:
        self._named_keys = snapshot.named_keys()
        sizes = {info.key: info.size for infos in listing.values() for info in infos}
        self._runs = list(
            contiguous_runs(
                volume.blocks
                for volume in snapshot.history()
                if all(sizes.get(file.key) == file.size for file in volume.row_files)
            )
        )

    def is_removable(self, key: str) -> bool:
        """Whether a file is not named, and the volumes hold all blocks that its name says."""
        if key in self._named_keys:
            return False
        if match := _BLOCKS.match(key):
            blocks = BlockRange(int(match[1]), int(match[2]))
            return any(run.holds(blocks) for run in self._runs)
        return _OTHERS.fullmatch(key) is not None  # what somebody else put there is not ours
