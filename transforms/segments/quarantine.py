"""The quarantine: files that could not be used, with the reason, until a corrected one comes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from transforms.objects import ObjectInfo, StoredFile
from transforms.segments.inventory import Refusal


@dataclass(frozen=True, slots=True)
class QuarantinedFile(Refusal):
    """A refused file and why: `copy` is the file itself where it was read before it was refused.

    Without one the listing alone was the reason (its name, a rival), which may pass by itself. With
    `memory_mb`, so many MB of memory were not enough to load it.
    """

    copy: StoredFile | None = None
    memory_mb: int = 0

    def stands(self, memory_mb: int) -> bool:
        """Whether only other bytes can help, for who may use so many MB to load the file."""
        return self.copy is not None and not 0 < self.memory_mb < memory_mb

    def dump(self) -> dict[str, Any]:
        """The row of a document."""
        info, copy = self.info, self.copy
        row = {"key": info.key, "size": info.size, "version": info.version, "reason": self.reason}
        row |= {"copy": [copy.key, copy.size, copy.sha256]} if copy else {}
        return row | ({"memory_mb": self.memory_mb} if self.memory_mb else {})

    @classmethod
    def parse(cls, row: dict[str, Any]) -> QuarantinedFile:
        """Read a row back."""
        info = ObjectInfo(row["key"], row["size"], row["version"])
        copy = StoredFile(*row["copy"]) if "copy" in row else None
        return cls(info, row["reason"], copy, row.get("memory_mb", 0))


def copy_key(key: str, sha256: str) -> str:
    """Where the copy of a refused file belongs in the warehouse: its name and its hash."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", key).removesuffix(".zip")
    # A file's name may hold bytes that are no UTF-8: Python has them as surrogates.
    source = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"quarantine/{plain[:120]}.{source}.{sha256}.zip"
