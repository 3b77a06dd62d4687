"""Block ranges and segment names (spec 2.8, segment file names). Pure values: no I/O here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transforms.errors import SegmentError

# Plain digits, and no more of them than the columns of the records hold (32 and 64 bits).
_FILE_NAME = re.compile(
    r"(?P<chain>.+)-(?P<version>[0-9]{1,9})-(?P<first>[0-9]{1,19})-(?P<last>[0-9]{1,19})\.zip"
)
_KEY_WIDTH = 9
# The chain id becomes a folder and part of file names, so it must be a plain name.
_CHAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
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
        """The range a partition key stands for."""
        first, _, last = key.partition("-")
        return cls(int(first), int(last))

    def overlaps(self, other: BlockRange) -> bool:
        """Whether a block lies in both."""
        return self.first <= other.last and other.first <= self.last

    def joins(self, following: BlockRange) -> bool:
        """Whether `following` starts right after this range."""
        return following.first == self.last + 1


@dataclass(frozen=True, slots=True)
class SegmentName:
    """What a segment's file name says: `<chain id>-<schema version>-<from>-<to>.zip`."""

    chain_id: str
    version: int
    blocks: BlockRange

    @classmethod
    def parse(cls, file_name: str) -> SegmentName:
        """Read a file name; a chain id may hold `-` and digits, the last three numbers count.

        Raises `SegmentError` where the name is not of that form.
        """
        match = _FILE_NAME.fullmatch(file_name)
        if match is None:
            raise SegmentError(
                f"{file_name!r} is not named <chain id>-<schema version>-<from>-<to>.zip"
            )
        if not _CHAIN_ID.fullmatch(match["chain"]):
            raise SegmentError(
                f"the chain id {match['chain']!r} in {file_name!r} is not a plain name"
            )
        blocks = BlockRange(int(match["first"]), int(match["last"]))
        return cls(match["chain"], int(match["version"]), blocks)

    @property
    def file_name(self) -> str:
        """The segment's ZIP name, numbers unpadded."""
        return f"{self.chain_id}-{self.version}-{self.blocks}.zip"

    def __str__(self) -> str:
        return f"segment {self.blocks}"


def contiguous_runs(ranges: Iterable[BlockRange]) -> Iterator[BlockRange]:
    """Merge ranges that join into the longest runs, ascending. Overlaps must be gone already."""
    run: BlockRange | None = None
    for blocks in sorted(ranges):
        if run is not None and run.joins(blocks):
            run = BlockRange(run.first, blocks.last)
            continue
        if run is not None:
            yield run
        run = blocks
    if run is not None:
        yield run


def gaps_between(runs: Iterable[BlockRange]) -> Iterator[BlockRange]:
    """The spans of missing blocks between runs that ascend."""
    previous: BlockRange | None = None
    for run in runs:
        if previous is not None:
            yield BlockRange(previous.last + 1, run.first - 1)
        previous = run
