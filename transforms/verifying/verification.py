"""One check: what it is about, how much of it was read, and what was proven or found sound before.

What a quick check need not read again is a part, such as a shard of an archive with its ZIPs, whose
few facts are as they were when a check of everything found nothing wrong. It relies on that check,
and says so.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from transforms.verifying.proofs import Proof, Proofs


class Kind(StrEnum):
    """What is counted."""

    SEGMENTS = "segments"
    VOLUMES = "volumes"
    TABLES = "tables"
    """Of volumes: read column by column, and rendered where a receipt says what must come."""
    ZIPS = "ZIPs"
    CSVS = "CSVs"
    DOCUMENTS = "documents"
    """Of the log, records, copies of refused files, captures; indexes, shards, revisions, lists;
    logs of the lake."""
    PAGES = "pages"
    HASH_FILES = "hash files"
    LAKE_FILES = "files of the lake"
    BYTES = "bytes"
    """Of volumes, of ZIPs and of files of the lake."""


@dataclass(slots=True)
class Count:
    """Of one kind: read, by this check or the part of it that was interrupted, and to be read.

    `expected` is all that there should be; `chosen` is less where only a sample is read.
    """

    read: int = 0
    chosen: int = 0
    expected: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of all kinds."""

    kinds: Mapping[Kind, Count] = field(default_factory=lambda: {kind: Count() for kind in Kind})

    def __getitem__(self, kind: Kind) -> Count:
        return self.kinds[kind]

    def expect(self, kind: Kind, number: int = 1, *, is_chosen: bool = True) -> None:
        """There should be so many more, which are to be read if they are chosen."""
        self.kinds[kind].expected += number
        self.kinds[kind].chosen += number if is_chosen else 0

    def read(self, kind: Kind, number: int = 1) -> None:
        """So many more were read."""
        self.kinds[kind].read += number

    def rows(self) -> Iterator[tuple[Kind, Count]]:
        """The kinds of which there is anything, in order."""
        return ((kind, count) for kind, count in self.kinds.items() if count.expected or count.read)

    def unread(self) -> Iterator[tuple[Kind, Count]]:
        """The kinds of which less was read than chosen."""
        return ((kind, count) for kind, count in self.kinds.items() if count.read < count.chosen)


@dataclass
class SoundParts:
    """The parts that a check relies on, of `total`, and those that it read itself.

    `since` is when the oldest of the former was read, in Unix seconds; 0 without any. `unchanged`
    are their places.
    """

    proofs: Proofs = field(default_factory=Proofs)
    total: int = 0
    since: float = 0.0
    unchanged: set[str] = field(default_factory=set)
    fresh: list[Proof] = field(default_factory=list)

    @cached_property
    def earlier(self) -> Mapping[str, Proof]:
        """What an earlier check has proven of parts, by place; they may have changed since."""
        return self.proofs.by_place()

    def rely(self, proof: Proof) -> None:
        """Count a part that is as it was, and is not read again."""
        self.since = min(self.since or proof.time, proof.time)
        self.unchanged.add(proof.place)

    def keep(self) -> None:
        """Let later checks rely on the parts that were read: nothing is wrong with the site."""
        self.proofs.keep(*self.fresh)


Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many of it were, and how many there are."""

YOUNG_SECONDS = 3600.0
"""How long a file may be there before something must name it: a publisher may be at work."""

QUICK = {Kind.ZIPS: 200, Kind.VOLUMES: 3, Kind.LAKE_FILES: 20}
"""How many of them a quick check reads, about."""


@dataclass(slots=True)
class Verification:
    """A check under way.

    `is_quick` hashes a random sample of ZIPs, volumes and files of the lake, no more. It ends early
    after `seconds`. `proven` is what an interrupted part of the same check has proven, `sound` what
    earlier checks found sound: only a quick check relies on it.
    """

    is_quick: bool = False
    seconds: float | None = None
    proven: Proofs = field(default_factory=Proofs)
    progress: Progress = lambda _what, _count, _total: None
    counts: Counts = field(default_factory=Counts)
    settle_seconds: float = 0.0
    was_stopped: bool = False
    sound: SoundParts = field(default_factory=SoundParts)
    _begun: float = field(default_factory=time.monotonic)

    def is_over(self) -> bool:
        """Whether its time is over; what was not begun is then left to the next part."""
        if self.seconds is not None and time.monotonic() - self._begun >= self.seconds:
            self.was_stopped = True
        return self.was_stopped

    def chooses(self, kind: Kind, total: int) -> bool:
        """Whether the next one of `total` things is to be read: each, or some of them."""
        return not self.is_quick or random.random() * total < QUICK[kind]

    def report(self, kind: Kind) -> None:
        """Tell how far it is with things of a kind."""
        count = self.counts[kind]
        self.progress(kind, count.read, count.chosen)
