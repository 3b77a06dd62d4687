"""A note of what is being published, so that a killed publisher's last steps are made up for.

The archive's index is written before the pages that follow from it. A publisher that dies between
the two leaves nothing to publish, and a page that nobody would write again; its note stays behind.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh


@contextmanager
def noted(folder: Path, shards: Iterable[int]) -> Iterator[None]:
    """Keep a note of the index shards that the block publishes to; it stays if the block fails."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid4().hex}.json"
    with path.open("x") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        json.dump(sorted(set(shards)), note)
        note.flush()
        yield
        path.unlink()


def settle(folder: Path, archive: Archive) -> int:
    """Write what follows from the shards in dead publishers' notes; returns how many there were."""
    settled = 0
    for path in sorted(folder.glob("*.json")):
        try:
            with path.open() as note:
                fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # An empty note is that of a publisher that died before it did anything.
                refresh(archive, json.loads(note.read() or "[]"))
                path.unlink()
        except (BlockingIOError, FileNotFoundError):
            continue  # its publisher is at work, or has just finished
        settled += 1
    return settled
