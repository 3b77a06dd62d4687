"""What a check read, of how much: so that nothing can be called sound that nobody looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
    LAKE_CSVS = "CSVs of the lake"
    """Rendered from its files, where receipts say what must come."""
    BYTES = "bytes"
    """Of volumes, of ZIPs and of files of the lake."""


@dataclass(slots=True)
class Count:
    """Of one kind: read now, proven by the part of this check that was interrupted, to be read.

    `expected` is all that there should be; `chosen` is less where only a sample is read.
    """

    read: int = 0
    earlier: int = 0
    chosen: int = 0
    expected: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether all that was chosen was read, now or earlier."""
        return self.read + self.earlier >= self.chosen


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

    def read(self, kind: Kind, number: int = 1, *, is_earlier: bool = False) -> None:
        """So many more were read, or were proven by the part that was interrupted."""
        if is_earlier:
            self.kinds[kind].earlier += number
        else:
            self.kinds[kind].read += number

    def rows(self) -> Iterator[tuple[Kind, Count]]:
        """The kinds of which there is anything, in order."""
        return ((kind, count) for kind, count in self.kinds.items() if count.expected or count.read)

    def unread(self) -> Iterator[tuple[Kind, Count]]:
        """The kinds of which less was read than chosen."""
        return ((kind, count) for kind, count in self.kinds.items() if not count.is_complete)
