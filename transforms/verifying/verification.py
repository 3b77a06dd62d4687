"""One check: what there is, how much of it was read, and what the last sound one relied on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from transforms.files import new_file
from transforms.sealed import read_sealed, seal


class Kind(StrEnum):
    """What is counted."""

    VOLUMES = "volumes"
    ZIPS = "ZIPs"
    LAKE_FILES = "files of the lake"
    BYTES = "bytes"
    """Of all of these."""


Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many of it were, and how many there are."""


@dataclass(slots=True)
class Verification:
    """A check under way; `there` and `read` count what there is, and what was read of it.

    `is_quick` looks at what is new since the last sound check, of which `sound` are the facts that
    it found (none for a whole check). `seen` are those of this one. `whole` is when the last whole
    check ended that found nothing wrong (ISO 8601); empty where this machine knows of none.
    What is as young as `settle_seconds` may be about to be published, and is not missed.
    """

    is_quick: bool = False
    progress: Progress = lambda _what, _count, _total: None
    settle_seconds: float = 0.0
    sound: frozenset[str] = frozenset()
    seen: set[str] = field(default_factory=set)
    whole: str = ""
    there: Counter[Kind] = field(default_factory=Counter)
    read: Counter[Kind] = field(default_factory=Counter)

    def expect(self, kind: Kind, number: int, size: int) -> None:
        """There are so many more things of a kind, of so many bytes."""
        self.there[kind] += number
        self.there[Kind.BYTES] += size

    def took(self, kind: Kind, size: int) -> None:
        """A thing of so many bytes was read."""
        self.read[kind] += 1
        self.read[Kind.BYTES] += size
        self.progress(kind, self.read[kind], max(self.there[kind], self.read[kind]))

    def is_known(self, fact: str) -> bool:
        """Whether the last sound check found the same, which this one found, too."""
        self.seen.add(fact)
        return fact in self.sound

    def rely_on(self, path: Path, about: str) -> None:
        """Let a quick check rely on the file of the last sound one, if that is `about` the same."""
        kept = read_sealed(path)
        if kept.get("about") == about:
            self.whole = kept.get("whole", "")
            self.sound = frozenset(kept["facts"] if self.is_quick else ())

    def keep(self, path: Path, about: str, *, is_sound: bool) -> None:
        """Let the next quick check rely on what this one saw, where nothing is wrong.

        Else it may rely on what this one did: after a whole check with findings, on nothing.
        """
        if is_sound and not self.is_quick:
            self.whole = datetime.now(UTC).isoformat(timespec="seconds")
        facts = sorted(self.seen if is_sound else self.seen & self.sound)
        with new_file(path) as file:
            file.write(seal({"about": about, "whole": self.whole, "facts": facts}))
