"""Block ranges: inclusive runs of heights (spec 2.8). Pure values: no I/O here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import eq
from typing import overload

from transforms.errors import SegmentError

_KEY_WIDTH = 9
GREATEST_BLOCK = 10**_KEY_WIDTH - 1
"""The greatest block of a segment: keys of partitions and names of volumes sort as text up to here.

At two blocks a second a chain reaches it after 15 years. Everything else would go on for longer: a
block after it is still exact in JSON (2^53), and in the columns and shards (2^63).
"""

_MAX_BLOCK = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class BlockRange:
    """An inclusive run of blocks, `first..last`, both heights."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first < 0 or self.last < self.first or self.last > _MAX_BLOCK:
            raise SegmentError(f"{self.first} to {self.last} is not a run of blocks")

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def key(self) -> str:
        """The Dagster partition key, `000001001-000002000`: it sorts as text like the blocks do."""
        return f"{self.first:0{_KEY_WIDTH}d}-{self.last:0{_KEY_WIDTH}d}"

    @classmethod
    def from_key(cls, key: str) -> BlockRange:
        """The range a partition key stands for. Raises `SegmentError` for any other text."""
        first, _, last = key.partition("-")
        if not (first.isdecimal() and last.isdecimal()):
            raise SegmentError(f"the partition {key!r} is no segment: delete it in Dagster")
        return cls(int(first), int(last))

    def overlaps(self, other: BlockRange) -> bool:
        """Whether a block lies in both."""
        return self.first <= other.last and other.first <= self.last

    def holds(self, other: BlockRange) -> bool:
        """Whether all blocks of `other` lie in this range."""
        return self.first <= other.first and other.last <= self.last

    def joins(self, following: BlockRange) -> bool:
        """Whether `following` starts right after this range."""
        return following.first == self.last + 1


@dataclass(frozen=True, slots=True)
class BlockRanges(Sequence[BlockRange]):
    """Ranges as columns: a history has 75,000, and most of them are never asked for."""

    firsts: Sequence[int]
    lasts: Sequence[int]

    @classmethod
    def of(cls, ranges: Sequence[BlockRange]) -> BlockRanges:
        """The columns of ranges."""
        return cls([run.first for run in ranges], [run.last for run in ranges])

    def __len__(self) -> int:
        return len(self.firsts)

    @overload
    def __getitem__(self, place: int) -> BlockRange: ...
    @overload
    def __getitem__(self, place: slice) -> BlockRanges: ...

    def __getitem__(self, place: int | slice) -> BlockRange | BlockRanges:
        if isinstance(place, slice):
            return BlockRanges(self.firsts[place], self.lasts[place])
        return BlockRange(self.firsts[place], self.lasts[place])

    @property
    def are_joined(self) -> bool:
        """Whether each of them starts right after the one before it."""
        return all(map(eq, self.firsts[1:], (last + 1 for last in self.lasts)))


def gaps_between(runs: Iterable[BlockRange]) -> Iterator[BlockRange]:
    """The spans of missing blocks between runs that ascend."""
    for before, after in pairwise(runs):
        yield BlockRange(before.last + 1, after.first - 1)
