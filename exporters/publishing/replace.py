"""Putting other bytes in the place of a published ZIP, on purpose and on the record.

The order is: the revisions, the object, its hash file, the index, the pages. Killed anywhere, the
same call again goes on where it stopped. Between the object and its index entry, the time of three
small writes, index and object differ; the revisions already have the reason. The old bytes are not
kept: turn on the bucket's versioning to keep them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.revisions import Revision, record
from transforms.stores.store import LostRaceError, object_sha256


@dataclass(frozen=True, slots=True)
class Correction:
    """Why published files may be replaced, in words for their users, and when (with time zone)."""

    reason: str
    at: datetime


def replace_object(archive: Archive, entry: Entry, zip_file: Path, correction: Correction) -> None:
    """Record and replace a published ZIP whose bytes differ; its hash file and index come after.

    Raises `BusyError` where somebody else changes the object meanwhile.
    """
    key = archive.key(entry.path)
    info = archive.store.head(key)
    if info is None:
        raise LostRaceError(f"{archive.place(entry.path)} was deleted by another writer: try again")
    old = object_sha256(archive.store, key)
    record(
        archive,
        Revision(entry.path, old, entry.sha256, correction.reason, correction.at),
    )
    archive.store.put_if_match(key, zip_file, info.version, "application/zip", sha256=entry.sha256)
