"""What this machine has seen of a warehouse's log, so that an older one is not taken for it."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from transforms.errors import IntegrityError, StrataError
from transforms.files import file_version, new_file
from transforms.scratch import scratch_folder
from transforms.warehouse.log.document import Document, parse_document

_NAME = "seen.json"


class NewestGeneration:
    """The newest generation seen, in a file of the cache; where none can be written, in none."""

    def __init__(self, cache: Path) -> None:
        self.path = cache / _NAME
        self._scratch = cache / "scratch"
        self._entry: tuple[str, Document, str] | None = None

    def keep(self, document: Document, data: bytes) -> None:
        """Remember a generation and its bytes, unless a newer one is known already."""
        last_seen = self.document()
        if (
            last_seen is not None
            and last_seen.warehouse == document.warehouse
            and last_seen.generation >= document.generation
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
            self._entry = (version, document, hashlib.sha256(data).hexdigest())

    def document(self) -> Document | None:
        """The newest generation seen; None where there is none, or what is kept is damaged."""
        entry = self.newest()
        return entry[0] if entry else None

    def newest(self) -> tuple[Document, str] | None:
        """The same, with the SHA-256 of its bytes."""
        with suppress(OSError, StrataError):
            version = file_version(self.path.stat())
            entry = self._entry
            # A document of thousands of volumes takes longer to parse than to replace.
            if entry is None or entry[0] != version:
                data = self.path.read_bytes()
                document = parse_document(data, str(self.path))
                entry = (version, document, hashlib.sha256(data).hexdigest())
                self._entry = entry
            return entry[1], entry[2]
        return None


def check_seen(last_seen: Document | None, document: Document | None, place: str) -> None:
    """Raise `IntegrityError` where the newest document is older than, or not, what was seen.

    `last_seen` must be from before `document` was looked for: other processes of this machine
    may see newer ones at any time.
    """
    if last_seen is None:
        return
    warehouse, generation = last_seen.warehouse, last_seen.generation
    advice = (
        "a backup was put there, or documents were lost; nothing was changed. strata repair "
        "says what is there and lets you choose"
    )
    if document is None:
        raise IntegrityError(
            f"{place} is empty, and this machine has seen generation {generation}: {advice}"
        )
    if document.warehouse != warehouse:
        raise IntegrityError(
            f"{place} belongs to another warehouse than the one this machine has seen "
            f"({document.warehouse}, not {warehouse}): {advice}"
        )
    if document.generation < generation:
        raise IntegrityError(
            f"{place} is generation {document.generation}, and this machine has seen "
            f"{generation}: {advice}"
        )
    if document.generation == generation and document.commit != last_seen.commit:
        raise IntegrityError(
            f"{place} is not the generation {generation} that this machine has seen: {advice}"
        )
