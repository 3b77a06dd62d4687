"""The revisions: which files were replaced, what stood there, what stands there now, why and when.

`<chain id>/revisions.json` has `format`, `chain_id` and `revisions`, a list in the order of events
with `path`, `old_sha256`, `new_sha256`, `reason` and `at` (RFC 3339, UTC).

An event is written before its object is replaced, so no replacement can go unrecorded. Nothing else
says what the revisions say, so there is a second copy, `revisions.copy.json`, written first: where
one is lost or damaged, the other one has all that happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from exporters.archive.archive import Archive, update
from exporters.archive.entries import Json
from exporters.archive.json_text import FORMAT, parsed, written
from transforms.errors import ConfigError, IntegrityError

REVISIONS = "revisions.json"
REVISIONS_COPY = "revisions.copy.json"
_TYPE = "application/json"


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

    Raises `IntegrityError` where neither the revisions nor their copy can be read.
    """
    return _known(archive, archive.read(REVISIONS))


def mend_revisions(archive: Archive) -> int:
    """Make the revisions and their copy equal where one is damaged; returns how many were made.

    Raises `IntegrityError` where neither can be read.
    """
    if archive.read(REVISIONS) is None and archive.read(REVISIONS_COPY) is None:
        return 0
    return sum(
        update(archive.store, archive.key(name), lambda old: _mended(archive, old), _TYPE)
        for name in (REVISIONS_COPY, REVISIONS)
    )


def right_revisions(archive: Archive) -> bytes | None:
    """The bytes that the revisions and their copy should both have; None where there is neither.

    Raises `IntegrityError` where neither can be read.
    """
    copies = [archive.read(name) for name in (REVISIONS, REVISIONS_COPY)]
    return None if copies == [None, None] else _mended(archive, copies[0])


def record(archive: Archive, revision: Revision) -> None:
    """Write down a replacement that is about to happen; the same one again is written once.

    An earlier one of the same file that never came to pass (the file still has its old bytes) gives
    way to this one.
    """

    def add(before: bytes | None) -> bytes:
        events = list(_known(archive, before))
        last = max((i for i, e in enumerate(events) if e.path == revision.path), default=None)
        if last is not None and events[last].old_sha256 == revision.old_sha256:
            if events[last].new_sha256 == revision.new_sha256:
                return _written(archive.chain_id, events)
            del events[last]
        return _written(archive.chain_id, [*events, revision])

    for name in (REVISIONS_COPY, REVISIONS):
        update(archive.store, archive.key(name), add, _TYPE)


def _mended(archive: Archive, before: bytes | None) -> bytes:
    return _written(archive.chain_id, _known(archive, before))


def _known(archive: Archive, first: bytes | None) -> tuple[Revision, ...]:
    """The events, from the bytes of one of the copies or from any that is whole."""
    damage: IntegrityError | None = None
    copies: list[tuple[Revision, ...]] = []
    for data in (archive.read(REVISIONS_COPY), first, archive.read(REVISIONS)):
        try:
            copies.append(_read(data, archive))
        except IntegrityError as error:
            damage = error
    # The copy, where they differ: who was killed between the two had written that one.
    longest = max(copies, key=len, default=())
    if damage is not None and not longest:
        raise damage
    return longest


def _read(data: bytes | None, archive: Archive) -> tuple[Revision, ...]:
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

    return parsed(data, archive.place(REVISIONS), read) if data else ()


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
