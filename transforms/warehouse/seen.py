"""What this machine has seen of a warehouse's log, so that an older one is not taken for it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from transforms.errors import IntegrityError
from transforms.files import new_file
from transforms.warehouse.document import Document

_NAME = "seen.json"


class Seen:
    """The newest generation seen, in a file of the cache; where none can be written, in none."""

    def __init__(self, cache: Path) -> None:
        self._path = cache / _NAME

    def keep(self, document: Document, sha256: str) -> None:
        """Remember a generation, unless a newer one is known already."""
        known = self._read()
        if known[0] == document.warehouse and known[1] >= document.generation:
            return
        row = {
            "warehouse": document.warehouse,
            "generation": document.generation,
            "sha256": sha256,
        }
        with suppress(OSError), new_file(self._path, durable=False) as file:
            file.write(json.dumps(row).encode())

    def check(self, document: Document | None, sha256: str, place: str) -> None:
        """Raise `IntegrityError` where the newest document is older than, or not, what was seen."""
        warehouse, generation, seen = self._read()
        if not warehouse:
            return
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
        if document.generation == generation and sha256 != seen:
            raise IntegrityError(
                f"{place} is not the generation {generation} that this machine has seen: {advice}"
            )

    def forget(self) -> None:
        """Forget it."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> tuple[str, int, str]:
        try:
            row = json.loads(self._path.read_text())
            return str(row["warehouse"]), int(row["generation"]), str(row["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0, ""
