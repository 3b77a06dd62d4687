"""The copies that turned out to be damaged in the course of one export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from exporters.exports.copies import DamagedCopyError
from transforms.block_range import BlockRange

_Item = TypeVar("_Item")

Warn = Callable[[str], object]

_READERS = 8
_CHUNK = 32


@dataclass(slots=True)
class Damages:
    """Which copies are not to be taken; `warn` gets each of them once, with its remedy."""

    warn: Warn
    _damages: dict[str, tuple[BlockRange, str]] = field(default_factory=dict)

    def __contains__(self, place: str) -> bool:
        return place in self._damages

    def __bool__(self) -> bool:
        return bool(self._damages)

    def note(self, place: str, blocks: BlockRange, damage: str) -> None:
        """Take no rows over `blocks` from a place any more."""
        if place not in self._damages:
            self._damages[place] = (blocks, damage)
            self.warn(f"{damage}. The rows are taken from another copy")

    def over(self, blocks: BlockRange) -> Iterator[str]:
        """What is damaged of some blocks, in words."""
        return (damage for run, damage in self._damages.values() if run.overlaps(blocks))

    def are_sound(
        self,
        prove: Callable[[Sequence[_Item]], Iterable[DamagedCopyError]],
        items: Sequence[_Item],
        check: Callable[[], object],
    ) -> bool:
        """Prove copies, several at a time; whether none is damaged. Those that are, are noted.

        `check` is called now and then, and raises where nobody waits any more.
        """

        def damages(some: Sequence[_Item]) -> Iterable[DamagedCopyError]:
            check()
            return prove(some)

        # Many at once cost a thread less than one by one, but few must not wait for each other.
        size = max(1, min(_CHUNK, len(items) // _READERS))
        chunks = [items[at : at + size] for at in range(0, len(items), size)]
        if len(chunks) <= 1:
            outcomes = [*map(damages, chunks)]
        else:
            with ThreadPoolExecutor(_READERS) as pool:
                outcomes = [*pool.map(damages, chunks)]
        wrong = [damage for outcome in outcomes for damage in outcome]
        for damage in wrong:
            self.note(damage.place, damage.blocks, str(damage))
        return not wrong
