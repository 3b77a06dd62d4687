"""What may be deleted from a warehouse, and when; everything else stays.

A file of segments is deleted only where named volumes hold all of its blocks, whatever the log says
of it: so nothing that is the only copy is ever lost to a log that was damaged or put back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from transforms.block_range import BlockRange
from transforms.coverage import union
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import LOG, settled_snapshots, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import MANIFESTS, is_held, listed

GRACE_SECONDS = 24 * 3600.0
"""How long a file that the newest snapshot no longer names is kept for readers of older ones."""

ORPHAN_SECONDS = 7 * 24 * 3600.0
"""How old a file that no snapshot ever named is before it is deleted: longer than any run."""

FOLDERS = (MANIFESTS, "data", "index", "state", "spam", "quarantine")
_OTHERS = re.compile(r"spam/[0-9a-f]{64}\.duckdb|quarantine/.+\.[0-9a-f]{64}\.zip")


def sweep(backing: Backing, grace_seconds: float, orphan_seconds: float) -> list[str]:
    """Delete what nobody can be about to read; returns the keys. May be killed and run again.

    That is: what the log dropped longer ago than the grace period, files that were never named, and
    snapshots that were followed longer ago than the grace period. Raises `IntegrityError` where the
    log is older than the volumes.
    """
    store, log = backing.store, backing.log
    snapshot = log.newest()
    if not snapshot.number:
        return []
    listing = listed(store, (*FOLDERS, LOG))
    infos = [info for folder in FOLDERS for info in listing[folder]]
    now, known = store.now(), snapshot.named_keys() | snapshot.dropped.keys()
    due = [key for key, since in snapshot.dropped.items() if since < now - grace_seconds]
    orphans = (
        info.key for info in infos if info.key not in known and info.modified < now - orphan_seconds
    )
    sizes = {info.key: info.size for info in infos}
    whole = (  # the volumes that are there, with all their bytes
        volume.blocks
        for volume in snapshot.history
        if all(sizes.get(file.key) == file.size for file in volume.row_files)
    )
    runs = union(whole)
    gone = [key for key in (*due, *orphans) if is_removable(key, runs)]
    gone += map(snapshot_key, settled_snapshots(listing[LOG], now - grace_seconds))
    for key in gone:
        store.delete(key)

    def change(newest: Snapshot) -> Snapshot:
        left = {key: since for key, since in newest.dropped.items() if key not in gone}
        return replace(newest, dropped=left)

    if due:
        log.commit(change)
    return gone


def is_removable(key: str, runs: Sequence[BlockRange]) -> bool:
    """Whether a file that nothing names holds no more than runs of blocks; if it is ours at all."""
    return is_held(key, runs) or _OTHERS.fullmatch(key) is not None
