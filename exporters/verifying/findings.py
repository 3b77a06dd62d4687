"""What a check of the archive can find."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Problem(Enum):
    """The kinds of findings."""

    MISSING = "missing"
    """An entry without its object."""
    ALTERED = "altered"
    """An object whose size or hash is not that of its entry."""
    BAD_HASH_FILE = "bad hash file"
    """A hash file that is absent or says something else."""
    BAD_ZIP = "bad ZIP"
    """A ZIP that does not unpack, or to other names, rows or text than its entry says."""
    BAD_WINDOW = "bad window"
    """A window that is not its single-segment ZIPs joined."""
    BAD_INDEX = "bad index"
    """An index file that cannot be read, or does not follow from what is published."""
    ORPHAN = "orphan"
    """An object that no entry names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its kind, its full address, what it is and what to do."""

    problem: Problem
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.problem.value}: {self.place}: {self.what}"
