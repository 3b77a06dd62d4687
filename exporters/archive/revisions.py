"""The revisions: which files were replaced, what stood there, what stands there now, why and when.

`<chain id>/revisions.json` has `format`, `chain_id` and `revisions`, a list in the order of events
with `path`, `old_sha256`, `new_sha256`, `reason` and `at` (RFC 3339, UTC).

An event is written before its object is replaced, so no replacement can go unrecorded. Nothing else
says what the revisions say: a list that is lost or damaged comes back from a mirror or a backup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from exporters.archive.archive import Archive, update
from exporters.archive.entries import Json
from exporters.archive.hash_lists import SUMS, parse_sums
from exporters.archive.json_text import FORMAT, parsed, written
from transforms.errors import ConfigError, IntegrityError

REVISIONS = "revisions.json"


@dataclass(frozen=True, slots=True)
class Revision:
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


def revisions(archive: Archive) -> tuple[Revision, ...]:
    """All that was ever replaced in the archive, oldest first.

    Raises `IntegrityError` where the list is damaged.
    """
    return parse_revisions(archive.read(REVISIONS), archive)


def record(archive: Archive, revision: Revision) -> None:
    """Write down a replacement that is about to happen; the same one again is written once.

    One that never came to pass stays: the next of its file then begins with the same bytes.
    """
    hashes = (revision.old_sha256, revision.new_sha256)

    def add(before: bytes | None) -> bytes:
        events = parse_revisions(before, archive)
        last = next((event for event in reversed(events) if event.path == revision.path), None)
        is_known = last is not None and (last.old_sha256, last.new_sha256) == hashes
        return _written(archive.chain_id, events if is_known else (*events, revision))

    update(archive.store, archive.key(REVISIONS), add, "application/json")


def check_present(archive: Archive, sums: bytes | None) -> None:
    """Raise `IntegrityError` if the list is missing although these `SHA256SUMS` name it."""
    if REVISIONS in parse_sums(sums or b"") and archive.read(REVISIONS) is None:
        raise IntegrityError(
            f"{archive.place(REVISIONS)} is missing, and nothing else says which files were "
            "replaced: put it back from a mirror or a backup; if there is none, run strata publish "
            "--revisions-lost REASON"
        )


def declare_loss(archive: Archive, reason: str, at: datetime) -> None:
    """Begin a new list, whose first event is the loss of the one that `SHA256SUMS` names."""
    listed = parse_sums(archive.read(SUMS) or b"").get(REVISIONS)
    if listed is None or archive.read(REVISIONS) is not None:
        raise ConfigError(f"{archive.place(REVISIONS)} is not lost: leave --revisions-lost out")
    record(archive, Revision(REVISIONS, listed, "", reason, at))


def parse_revisions(data: bytes | None, archive: Archive) -> tuple[Revision, ...]:
    """The events of an archive's list from its bytes (None: there is none)."""

    def read(document: Json) -> tuple[Revision, ...]:
        if document["chain_id"] != archive.chain_id:
            raise ValueError(f"it is that of chain {document['chain_id']}")
        return tuple(
            Revision(
                item["path"],
                item["old_sha256"],
                item["new_sha256"],
                item["reason"],
                datetime.fromisoformat(item["at"]),
            )
            for item in document["revisions"]
        )

    return () if data is None else parsed(data, archive.place(REVISIONS), read)


def _written(chain_id: str, events: Iterable[Revision]) -> bytes:
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
    return written({"format": FORMAT, "chain_id": chain_id, "revisions": rows})
