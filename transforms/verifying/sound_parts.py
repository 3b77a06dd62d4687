"""What an earlier check of a site found sound, for a quick check that reads only what is new.

A part is something that can be told from few facts to be as it was: a shard of an archive, with its
ZIPs. A quick check that finds these facts unchanged relies on the proof of the check that read the
part, and says so. Only a check of everything that found nothing wrong leaves proofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from transforms.verifying.proofs import Proof, Proofs


@dataclass
class SoundParts:
    """The parts that a check relies on, of `total`, and those that it read itself.

    `since` is when the oldest of the former was read, in Unix seconds; 0 without any.
    """

    proofs: Proofs = field(default_factory=Proofs)
    total: int = 0
    since: float = 0.0
    unchanged: set[str] = field(default_factory=set)
    """The places of the parts that are relied on."""
    _fresh: list[Proof] = field(default_factory=list)

    @cached_property
    def _earlier(self) -> Mapping[str, Proof]:
        return self.proofs.by_place()

    def find(self, place: str) -> Proof | None:
        """What an earlier check has proven of a part, which may have changed since."""
        return self._earlier.get(place)

    def rely(self, proof: Proof) -> None:
        """Count a part that is as it was, and is not read again."""
        self.since = min(self.since or proof.time, proof.time)
        self.unchanged.add(proof.place)

    def add(self, proof: Proof) -> None:
        """Take in a part that was read; later checks know of it once `keep` is called."""
        self._fresh.append(proof)

    def clear(self) -> None:
        """Forget what earlier checks found."""
        self.proofs.clear()

    def keep(self) -> None:
        """Let later checks rely on the parts that were read: nothing is wrong with the site."""
        self.proofs.keep(*self._fresh)
