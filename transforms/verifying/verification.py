"""One check: what there is, how much of it was read, and what earlier ones have proven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from transforms.files import new_file
from transforms.sealed import read_sealed, seal
from transforms.verifying.findings import ForeignRows


class Kind(StrEnum):
    """What is counted."""

    VOLUMES = "volumes"
    ZIPS = "ZIPs"
    LAKE_FILES = "files of the lake"
    BYTES = "bytes"
    """Of all of these."""


Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many of it were, and how many there are."""


@dataclass(frozen=True, slots=True)
class EndedCheck:
    """When a check ended (ISO 8601), and how many findings it had."""

    at: str
    findings: int


COMPLETE, QUICK = "complete", "quick"


def ended_checks(path: Path, about: str) -> dict[str, EndedCheck]:
    """Read the last checks of each kind that were `about` the same."""
    kept = read_sealed(path)
    checks = kept.get("ended", {}) if kept.get("about") == about else {}
    return {kind: EndedCheck(*check) for kind, check in checks.items()}


@dataclass(slots=True)
class Verification:
    """A check under way; `there` and `read` count what there is, and what was read of it.

    `is_quick` looks at what no earlier check has proven; `sound` are the facts that these have
    (none for a whole check), and `proven` those of this one: of each nothing wrong was found.
    `whole` is when the last whole check ended that found nothing wrong at all (ISO 8601); empty
    where this machine knows of none. `ended` are the last checks of each kind.
    `foreign_rows` are a warning, and no findings.
    What is as young as `settle_seconds` may be about to be published, and is not missed.
    """

    is_quick: bool = False
    progress: Progress = lambda _what, _count, _total: None
    settle_seconds: float = 0.0
    sound: frozenset[str] = frozenset()
    proven: set[str] = field(default_factory=set)
    whole: str = ""
    ended: dict[str, EndedCheck] = field(default_factory=dict)
    foreign_rows: list[ForeignRows] = field(default_factory=list)
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
        """Whether an earlier check has proven the same, which then stays so."""
        is_known = fact in self.sound
        if is_known:
            self.proven.add(fact)
        return is_known

    def rely_on(self, path: Path, about: str) -> None:
        """Let a quick check rely on the file of the last one, if that is `about` the same."""
        kept = read_sealed(path)
        if kept.get("about") == about:
            self.whole = kept.get("whole", "")
            self.sound = frozenset(kept["facts"] if self.is_quick else ())
        self.ended = ended_checks(path, about)

    def keep(self, path: Path, about: str, findings: int) -> None:
        """Let the next quick check rely on what this one has proven, or found as it was."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        kind = QUICK if self.is_quick else COMPLETE
        self.ended.pop(kind, None)  # the newest is the last
        self.ended[kind] = EndedCheck(now, findings)
        if not (findings or self.is_quick):
            self.whole = now
        ended = {kind: [check.at, check.findings] for kind, check in self.ended.items()}
        facts = sorted(self.proven)
        with new_file(path) as file:
            file.write(seal({"about": about, "whole": self.whole, "ended": ended, "facts": facts}))
