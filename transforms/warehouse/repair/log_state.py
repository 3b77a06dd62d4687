"""What is there of the log, whatever its condition: for who repairs it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from transforms.errors import IntegrityError
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import Log, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LogState:
    """The numbers of the snapshots, the newest sound one with its SHA-256, and what was seen.

    `damaged` are the newer snapshots that are not sound, newest first, with the reason; `gap` is
    the number that lacks before the newest snapshot, 0 where none does; `read` is how many
    snapshots were read.
    """

    numbers: Sequence[int]
    sound: Snapshot | None
    parent: str
    damaged: Sequence[tuple[int, str]]
    last_seen: Snapshot | None
    gap: int = 0

    @property
    def top(self) -> int:
        """The highest number of a snapshot; 0 where there is none."""
        return self.numbers[-1] if self.numbers else 0

    @property
    def read(self) -> int:
        """How many snapshots were read."""
        return len(self.damaged) + (self.sound is not None)

    def conflict(self, place: str) -> str:
        """Why the log cannot follow what this machine has seen, as a sentence; empty if it can."""
        last_seen, sound = self.last_seen, self.sound
        if last_seen is None:
            return ""
        clause = f"this machine has seen snapshot {last_seen.number} of {last_seen.warehouse}"
        if not self.numbers:
            return f"{place} has no log, and {clause}"
        if sound is not None and sound.warehouse != last_seen.warehouse:
            return f"the log of {place} belongs to another warehouse, {sound.warehouse}: {clause}"
        if last_seen.number > self.top:
            return f"the log of {place} ends with snapshot {self.top}, and {clause}"
        if sound and last_seen.number == sound.number and last_seen.commit != sound.commit:
            return f"the log of {place} has another snapshot {sound.number}, and {clause}"
        return ""

    def newest(self) -> Snapshot | None:
        """The newest sound snapshot, or this machine's copy of a newer one of this warehouse."""
        last_seen, sound = self.last_seen, self.sound
        if last_seen is None or (sound and sound.number >= last_seen.number):
            return sound
        return last_seen if sound is None or sound.warehouse == last_seen.warehouse else sound


def read_state(backing: Backing) -> LogState:
    """Read snapshots from the newest one down to a sound one.

    Raises `ConfigError` for one of a newer release; an unreachable store raises too.
    """
    log = backing.log
    numbers = log.numbers()
    damaged = []
    for number in reversed(numbers):
        try:
            snapshot = log.read(number)
            data = backing.store.read(snapshot_key(number))
        except FileNotFoundError:
            continue  # too old: removed by another process just now
        except IntegrityError as error:
            damaged.append((number, str(error.__cause__ or error)))
            continue
        gap = 0 if damaged else _gap(log, numbers, snapshot)
        parent = hashlib.sha256(data).hexdigest()
        return LogState(numbers, snapshot, parent, damaged, log.last_seen(), gap)
    return LogState(numbers, None, "", damaged, log.last_seen())


def _gap(log: Log, numbers: Sequence[int], newest: Snapshot) -> int:
    """The number at which the newest snapshot should be repeated; 0 where none is needed."""
    if len(numbers) == 1 or numbers[-2] == newest.number - 1:
        return 0
    try:
        repeated = log.read(numbers[-2]).commit == newest.commit
    except (IntegrityError, FileNotFoundError):
        repeated = False
    return 0 if repeated else numbers[-2] + 1
