"""One check: what it is about, how far it is, and what of it was proven before."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from transforms.block_range import BlockRange
from transforms.verifying.counts import Counts, Kind
from transforms.verifying.proofs import Proofs
from transforms.verifying.sound_parts import SoundParts

_Item = TypeVar("_Item")

Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many of it were, and how many there are."""

YOUNG_SECONDS = 3600.0
"""How long a file may be there before something must name it: a publisher may be at work."""


QUICK_ZIPS, QUICK_VOLUMES, QUICK_LAKE_FILES = 200, 3, 20
"""How many of them a quick check reads, about."""


def _unreported(_what: str, _count: int, _total: int) -> None:
    """Nobody wants to know the progress."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is checked: these tables (none: all) in segments that hold any of these blocks."""

    tables: tuple[str, ...] = ()
    blocks: BlockRange | None = None

    def __str__(self) -> str:
        tables = f"tables {', '.join(self.tables)}" if self.tables else ""
        blocks = f"blocks {self.blocks}" if self.blocks else ""
        return " in ".join(filter(None, (tables, blocks))) or "everything"

    @property
    def is_whole(self) -> bool:
        """Whether that is everything."""
        return not self.tables and self.blocks is None

    def has_table(self, table: str) -> bool:
        """Whether a table belongs to it."""
        return not self.tables or table in self.tables

    def reaches(self, blocks: BlockRange) -> bool:
        """Whether any of these blocks belongs to it."""
        return self.blocks is None or self.blocks.overlaps(blocks)


@dataclass(slots=True)
class Verification:
    """A check under way.

    `is_quick` hashes a random sample of ZIPs, volumes and files of the lake, no more. It ends early
    after `seconds`. `proven` is what an interrupted part of the same check has proven, `sound` what
    earlier checks found sound: only a quick check relies on it.
    """

    scope: Scope = field(default_factory=Scope)
    is_quick: bool = False
    seconds: float | None = None
    proven: Proofs = field(default_factory=Proofs)
    progress: Progress = _unreported
    counts: Counts = field(default_factory=Counts)
    settle_seconds: float = 0.0
    was_stopped: bool = False
    sound: SoundParts = field(default_factory=SoundParts)
    rendered: dict[str, str] = field(default_factory=dict)
    """Of data files that rendered right, by SHA-256: the `receipts_digest` of all of their CSVs."""
    _begun: float = field(default_factory=time.monotonic)
    _random: random.Random = field(default_factory=random.Random)

    def is_over(self) -> bool:
        """Whether its time is over; what was not begun is then left to the next part."""
        if self.seconds is not None and time.monotonic() - self._begun >= self.seconds:
            self.was_stopped = True
        return self.was_stopped

    def sampled(self, volumes: Sequence[_Item]) -> Sequence[_Item]:
        """The volumes that are read: all, or as many as a sample takes."""
        return self.sample(volumes, min(QUICK_VOLUMES, len(volumes))) if self.is_quick else volumes

    def chooses(self, total: int) -> bool:
        """Whether the next one of `total` ZIPs is to be read: each, or some of them."""
        return not self.is_quick or self._random.random() * total < QUICK_ZIPS

    def sample(self, items: Sequence[_Item], number: int) -> list[_Item]:
        """So many of some things, chosen at random."""
        return self._random.sample(items, number)

    def chooses_file(self, total: int) -> bool:
        """The same of `total` files of the lake."""
        return not self.is_quick or self._random.random() * total < QUICK_LAKE_FILES

    def report(self, kind: Kind) -> None:
        """Tell how far it is with things of a kind."""
        count = self.counts[kind]
        self.progress(kind, count.read + count.earlier, count.chosen)
