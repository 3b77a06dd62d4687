"""Segment names (spec 2.8, segment file names). Pure values: no I/O here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from transforms.block_range import GREATEST_BLOCK, BlockRange
from transforms.errors import SegmentError

# Plain digits, and no more of them than the columns of the records hold (32 and 64 bits). None are
# padded: a segment has one name.
_HEIGHT = "0|[1-9][0-9]{0,18}"
_FILE_NAME = re.compile(
    rf"(?P<chain>.+)-(?P<version>0|[1-9][0-9]{{0,8}})-(?P<first>{_HEIGHT})-(?P<last>{_HEIGHT})\.zip"
)
_CHAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# The longest file name made of a chain id has 89 bytes more, and file systems allow 255.
_LONGEST_CHAIN_ID = 128
_LONGEST_FACT = _LONGEST_CHAIN_ID + 1
RESERVED_CHAIN_IDS = frozenset({"index.html", "chains.json", "unfinished"})
"""What lies beside the folders of chains in an archive, and in the folder of waiting parts."""


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
                f"{file_name!r} is not named <chain id>-<schema version>-<from>-<to>.zip, in plain "
                "numbers"
            )
        _check_chain_id(match["chain"], file_name)
        blocks = BlockRange(int(match["first"]), int(match["last"]))
        if blocks.last > GREATEST_BLOCK:
            raise SegmentError(
                f"{file_name!r} ends at block {blocks.last}, and the greatest that can be loaded "
                f"is {GREATEST_BLOCK}: correct the name if it is wrong"
            )
        return cls(match["chain"], int(match["version"]), blocks)

    @classmethod
    def stated(cls, *facts: object) -> SegmentName:
        """The name of chain id, schema version, first and last block, as somebody's JSON has them.

        Raises `SegmentError` where no file can have that name.
        """
        return cls.parse(f"{'-'.join(str(fact)[:_LONGEST_FACT] for fact in facts)}.zip")

    @property
    def file_name(self) -> str:
        """The segment's ZIP name, numbers unpadded."""
        return f"{self.chain_id}-{self.version}-{self.blocks}.zip"

    def __str__(self) -> str:
        return f"segment {self.blocks}"


def _check_chain_id(chain_id: str, file_name: str) -> None:
    """Raise `SegmentError` for a chain id in a file's name that cannot name a folder and files."""
    if not _CHAIN_ID.fullmatch(chain_id):
        raise SegmentError(f"the chain id {chain_id!r} in {file_name!r} is not a plain name")
    # Some file systems fold case.
    if chain_id.lower() in RESERVED_CHAIN_IDS:
        raise SegmentError(
            f"the chain id {chain_id!r} in {file_name!r} is the name of a file or folder that "
            "Strata makes beside those of chains: such a chain cannot be published"
        )
    if len(chain_id) > _LONGEST_CHAIN_ID:
        raise SegmentError(
            f"the chain id in {file_name!r} has {len(chain_id)} characters, and file names made of "
            f"it fit with at most {_LONGEST_CHAIN_ID}"
        )
