"""The ledger of replaced files: which, what stood there, what stands there now, why and when.

`<chain id>/ledger.json`: `format`, `chain_id` and `replaced`, a list in the order of events with
`path`, `old_sha256`, `new_sha256`, `reason` and `at` (RFC 3339, UTC).

An event is written before its object is replaced, so no replacement can go unrecorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from exporters.archive.archive import Archive, update
from exporters.archive.entries import Json
from exporters.archive.shards import FORMAT, json_lines, parsed
from transforms.errors import ConfigError

LEDGER = "ledger.json"


@dataclass(frozen=True, slots=True)
class Replacement:
    """One file that was replaced; hashes are hex SHA-256, `path` is below the chain's folder."""

    path: str
    old_sha256: str
    new_sha256: str
    reason: str
    at: datetime

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ConfigError(f"a reason is needed to replace {self.path}: users will ask for it")
        if self.at.tzinfo is None:
            raise ConfigError(f"the time at which {self.path} is replaced needs a time zone")


def replacements(archive: Archive) -> tuple[Replacement, ...]:
    """All that was ever replaced in the archive, oldest first."""
    return _read(archive.read(LEDGER), archive)


def record(archive: Archive, replacement: Replacement) -> None:
    """Write down a replacement that is about to happen; the same one again is written once.

    An earlier one of the same file that never came to pass (the file still has its old bytes) gives
    way to this one.
    """

    def add(before: bytes | None) -> bytes:
        events = list(_read(before, archive))
        last = max((i for i, e in enumerate(events) if e.path == replacement.path), default=None)
        if last is not None and events[last].old_sha256 == replacement.old_sha256:
            if events[last].new_sha256 == replacement.new_sha256:
                return _written(archive.chain_id, events)
            del events[last]
        return _written(archive.chain_id, [*events, replacement])

    update(archive.store, archive.key(LEDGER), add, "application/json")


def _read(data: bytes | None, archive: Archive) -> tuple[Replacement, ...]:
    def read(found: Json) -> tuple[Replacement, ...]:
        return tuple(
            Replacement(
                item["path"],
                item["old_sha256"],
                item["new_sha256"],
                item["reason"],
                datetime.fromisoformat(item["at"]),
            )
            for item in found["replaced"]
        )

    return parsed(data, archive.place(LEDGER), read) if data else ()


def _written(chain_id: str, events: Iterable[Replacement]) -> bytes:
    rows = [
        {
            "path": event.path,
            "old_sha256": event.old_sha256,
            "new_sha256": event.new_sha256,
            "reason": event.reason,
            "at": event.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        for event in events
    ]
    return json_lines({"format": FORMAT, "chain_id": chain_id, "replaced": rows})
