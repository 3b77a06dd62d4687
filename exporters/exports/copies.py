"""Copies of parts: the ZIPs in which a part lies, each proven before a byte of it is served.

A part lies in the published ZIP of its segment, in those of bundles, or in the folder of
parts that wait to be published; and it can be rendered from its data file. Whichever copy is taken,
the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from exporters.zips.sources import ByteSource
from transforms.block_range import BlockRange
from transforms.errors import BusyError, IntegrityError


class DamagedCopyError(IntegrityError):
    """A copy over `blocks` is not what is recorded of it, or not there; `place` is its address."""

    def __init__(self, place: str, blocks: BlockRange, what: str) -> None:
        super().__init__(f"{place} {what}")
        self.place = place
        self.blocks = blocks


class Copy:
    """One ZIP with parts, as bytes that are proven before the first of them is read.

    Where it turns out to be damaged, or went meanwhile, the same bytes are taken from elsewhere.
    """

    __slots__ = ("_find_equal", "_source", "blocks", "name", "size", "version")

    def __init__(
        self, name: str, size: int, version: str, blocks: BlockRange, find_equal: FindEqual
    ) -> None:
        """Its address, length in bytes, recorded SHA-256, and the blocks of its parts."""
        self.name, self.size, self.version, self.blocks = name, size, version, blocks
        self._find_equal = find_equal
        self._source: ByteSource | None = None

    def prove(self) -> None:
        """Prove it now, unless that was done. Raises `DamagedCopyError`."""

    @property
    def is_proven(self) -> bool:
        """Whether its bytes are known to be sound."""
        return self._source is not None

    def take(self, source: ByteSource) -> None:
        """Read these bytes: they were proven in this very state."""
        self._source = source

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`.

        Raises `IntegrityError` where neither this copy nor an equal one is sound.
        """
        try:
            self.prove()
            assert self._source is not None
            return self._source.read(offset, length)
        except (BusyError, FileNotFoundError, IntegrityError) as error:
            self._source = self._find_equal(self, error)
            return self._source.read(offset, length)


FindEqual = Callable[[Copy, Exception], ByteSource]
"""Gives the bytes of a copy, which cannot be read for this reason, from elsewhere."""


@contextmanager
def damage_of(place: str, blocks: BlockRange, remedy: str) -> Iterator[None]:
    """Name the copy and its remedy where reading its directory fails."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedCopyError(place, blocks, f"is not there: {remedy}") from error
    except (IntegrityError, ValueError) as error:
        raise DamagedCopyError(place, blocks, f"is damaged ({error}): {remedy}") from error


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
