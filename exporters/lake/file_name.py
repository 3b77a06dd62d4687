"""What the files of the lake's tables are called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from transforms.block_range import BlockRange
from transforms.errors import SegmentError

_NAME = re.compile(r"(\d{1,19})-(\d{1,19})\.([0-9a-f]{16})(?:\.([0-9a-f]{64}))?\.parquet")


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a file: the blocks of its segments, and the beginning of its SHA-256.

    One of current state has the SHA-256 of the CSV that it renders to, too: whoever publishes a
    newer segment sees by it whether the rows are the same.
    """

    blocks: BlockRange
    digest: str
    csv: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, (str(self.blocks), self.digest, self.csv, "parquet")))

    @classmethod
    def of(cls, blocks: BlockRange, sha256: str, csv: str = "") -> FileName:
        """The name of a file with this SHA-256 (hex); see the class for `csv`."""
        return cls(blocks, sha256[:16], csv)

    def is_of(self, sha256: str) -> bool:
        """Whether a file with this SHA-256 (hex) may have the name."""
        return sha256.startswith(self.digest)

    @staticmethod
    @lru_cache(maxsize=16_384)
    def parse(name: str) -> FileName | None:
        """What a name says; None for another one."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        try:
            return FileName(BlockRange(int(match[1]), int(match[2])), match[3], match[4] or "")
        except SegmentError:  # it ends before it begins
            return None
