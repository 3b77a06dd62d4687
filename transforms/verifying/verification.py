"""One check: how much of what there is was read, and what an earlier check found sound."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from transforms.verifying.proofs import Proof, Proofs

_Item = TypeVar("_Item")


class Kind(StrEnum):
    """What is counted."""

    VOLUMES = "volumes"
    ZIPS = "ZIPs"
    LAKE_FILES = "files of the lake"
    BYTES = "bytes"
    """Of volumes, of ZIPs and of files of the lake."""
    DOCUMENTS = "documents"
    """Of the log, manifests, copies of refused files, captures; indexes, shards, lists, pages; logs
    of the lake."""


Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many of it were, and how many there are."""

YOUNG_SECONDS = 3600.0
"""How long a file may be there before something must name it: a publisher may be at work."""

QUICK = {Kind.ZIPS: 200, Kind.VOLUMES: 3, Kind.LAKE_FILES: 20}
"""How many of them a quick check reads."""


@dataclass(slots=True)
class Verification:
    """A check under way; `there` and `read` count what there is, and what was read of it.

    `is_quick` hashes a random sample of ZIPs, volumes and files of the lake. It relies on the
    shards that are as a sound check of the last 30 days found them (`sound`).
    What is as young as `settle_seconds` may be about to be published, and is not missed.
    """

    is_quick: bool = False
    progress: Progress = lambda _what, _count, _total: None
    sound: Proofs = field(default_factory=Proofs)
    settle_seconds: float = 0.0
    there: Counter[Kind] = field(default_factory=Counter)
    read: Counter[Kind] = field(default_factory=Counter)
    unchanged: int = 0
    _fresh: list[Proof] = field(default_factory=list)

    def expect(self, kind: Kind, number: int, size: int) -> None:
        """There are so many more things of a kind, of so many bytes."""
        self.there[kind] += number
        self.there[Kind.BYTES] += size

    def took(self, kind: Kind, size: int) -> None:
        """A thing of so many bytes was read."""
        self.read[kind] += 1
        self.read[Kind.BYTES] += size
        total = min(self.there[kind], QUICK[kind]) if self.is_quick else self.there[kind]
        self.progress(kind, self.read[kind], max(total, self.read[kind]))

    def took_document(self) -> None:
        """A document was read: each is, that is looked for."""
        self.there[Kind.DOCUMENTS] += 1
        self.read[Kind.DOCUMENTS] += 1

    def chosen(self, kind: Kind, items: Sequence[_Item]) -> Sequence[_Item]:
        """The things of a kind that are read: each, or some of them."""
        if not self.is_quick:
            return items
        return random.sample(items, min(QUICK[kind], len(items)))

    def is_unchanged(self, shard: Proof) -> bool:
        """Whether a quick check need not read a shard again; counts those."""
        is_unchanged = self.is_quick and self.sound.has(shard)
        self.unchanged += int(is_unchanged)
        return is_unchanged

    def found_sound(self, shard: Proof) -> None:
        """Note a shard, which later checks may rely on if nothing else is wrong either."""
        self._fresh.append(shard)

    def keep_sound(self) -> None:
        """Let later checks rely on the shards that were read: nothing is wrong with the site."""
        self.sound.keep(*self._fresh)
