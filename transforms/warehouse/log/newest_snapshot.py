"""What this machine has seen of a warehouse's log, so that an older one is not taken for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from transforms.errors import StrataError
from transforms.files import file_version, new_file
from transforms.scratch import scratch_folder
from transforms.warehouse.log.snapshot import Snapshot, parse_snapshot

CHOICE = (
    "a backup was put there, or snapshots were lost; nothing was changed: run strata repair, which "
    "takes in the volumes that the log does not name"
)
"""What to do about a log that is not the one that was seen, or is older than its volumes."""

_NAME = "seen.json"


class NewestSnapshot:
    """The newest snapshot seen, in a file of the cache; where none can be written, in none."""

    def __init__(self, cache: Path) -> None:
        self.path = cache / _NAME
        self._scratch = cache / "scratch"
        self._entry: tuple[str, Snapshot, str] | None = None

    def keep(self, snapshot: Snapshot, data: bytes) -> None:
        """Remember a snapshot and its bytes, unless a newer one is known already."""
        last_seen = self.snapshot()
        if (
            last_seen is not None
            and last_seen.warehouse == snapshot.warehouse
            and last_seen.number >= snapshot.number
        ):
            return
        with (
            suppress(OSError),
            scratch_folder(self._scratch) as scratch,
            new_file(self.path, scratch, durable=False) as file,
        ):
            file.write(data)
            file.flush()
            version = file_version(os.fstat(file.fileno()))
            self._entry = (version, snapshot, hashlib.sha256(data).hexdigest())

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot seen; None where there is none, or what is kept is damaged."""
        entry = self.newest()
        return entry[0] if entry else None

    def newest(self) -> tuple[Snapshot, str] | None:
        """The same, with the SHA-256 of its bytes."""
        with suppress(OSError, StrataError):
            version = file_version(self.path.stat())
            entry = self._entry
            # A snapshot of thousands of volumes takes longer to parse than to replace.
            if entry is None or entry[0] != version:
                data = self.path.read_bytes()
                snapshot = parse_snapshot(data, str(self.path))
                entry = (version, snapshot, hashlib.sha256(data).hexdigest())
                self._entry = entry
            return entry[1], entry[2]
        return None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The newest sound snapshot of a log, and the numbers of newer ones that are not, with why."""

    sound: Snapshot | None = None
    damaged: Sequence[tuple[int, str]] = ()

    @property
    def top(self) -> int:
        """The highest number of a snapshot; 0 where there is none."""
        newest = self.sound.number if self.sound else 0
        return self.damaged[0][0] if self.damaged else newest

    def conflict(self, last_seen: Snapshot | None, place: str) -> str:
        """Why this machine has seen another log, or more of this one; empty if it has not.

        `last_seen` must be from before the log was read: other processes of this machine may see
        newer snapshots at any time.
        """
        if last_seen is None:
            return ""
        warehouse, number = last_seen.warehouse, last_seen.number
        if not self.top:
            return f"{place} is empty, and this machine has seen snapshot {number}"
        if self.sound and self.sound.warehouse != warehouse:
            return (
                f"{place} belongs to another warehouse than the one this machine has seen "
                f"({self.sound.warehouse}, not {warehouse})"
            )
        if self.top < number:
            return f"{place} is snapshot {self.top}, and this machine has seen {number}"
        if self.sound and self.sound.number == number and self.sound.commit != last_seen.commit:
            return f"{place} is not the snapshot {number} that this machine has seen"
        return ""
