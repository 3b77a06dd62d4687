"""The names of ZIPs and of the CSVs inside them (spec 2.8.6 and 2.8.7). Pure text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from transforms.block_range import BlockRange
from transforms.errors import IntegrityError, SegmentError

_CSV_NAME = re.compile(
    r"(?P<chain>.+)-(?P<table>[a-z_]+)-(?P<version>\d{1,9})-(?P<first>\d{1,19})-(?P<last>\d{1,19})\.csv"
)

_ZIP_NAME = re.compile(
    r"(?P<chain>.+)-(?P<table>[a-z_]+)-(?P<first>\d{1,19})-(?P<last>\d{1,19})\.zip"
)


class NameStyle(Enum):
    """How numbers are written in names."""

    SPEC = "spec"
    """Unpadded: `mainnet-orders-1-1000.zip`."""
    REFERENCE = "reference"
    """As the network's data node pads: six digits for blocks, three for a schema version."""

    def block(self, height: int) -> str:
        """A block height as text."""
        return f"{height:06d}" if self is NameStyle.REFERENCE else str(height)

    def version(self, number: int) -> str:
        """A schema version as text."""
        return f"{number:03d}" if self is NameStyle.REFERENCE else str(number)


@dataclass(frozen=True, slots=True)
class CsvName:
    """What a CSV's name says."""

    chain_id: str
    table: str
    version: int
    blocks: BlockRange


@dataclass(frozen=True, slots=True)
class ZipName:
    """What a ZIP's name says."""

    chain_id: str
    table: str
    blocks: BlockRange


def zip_name(
    chain_id: str, table: str, blocks: BlockRange, style: NameStyle = NameStyle.SPEC
) -> str:
    """The name of a ZIP: `<chain id>-<table>-<from>-<to>.zip`."""
    return f"{chain_id}-{table}-{style.block(blocks.first)}-{style.block(blocks.last)}.zip"


def csv_name(
    chain_id: str,
    table: str,
    version: int,
    blocks: BlockRange,
    style: NameStyle = NameStyle.SPEC,
) -> str:
    """The name of a CSV: `<chain id>-<table>-<schema version>-<from>-<to>.csv`."""
    span = f"{style.block(blocks.first)}-{style.block(blocks.last)}"
    return f"{chain_id}-{table}-{style.version(version)}-{span}.csv"


def parse_zip_name(name: str) -> ZipName | None:
    """Read a ZIP's name in either style; None where it is no such name."""
    match = _ZIP_NAME.fullmatch(name)
    if match is None:
        return None
    try:
        blocks = BlockRange(int(match["first"]), int(match["last"]))
    except SegmentError:
        return None
    return ZipName(match["chain"], match["table"], blocks)


def parse_csv_name(name: str) -> CsvName:
    """Read a CSV's name in either style; a chain id may hold `-` and digits.

    Raises `IntegrityError` where the name is not of that form, for only archived names are read.
    """
    match = _CSV_NAME.fullmatch(name)
    if match is None:
        raise IntegrityError(
            f"{name!r} is not named <chain id>-<table>-<schema version>-<from>-<to>.csv"
        )
    blocks = BlockRange(int(match["first"]), int(match["last"]))
    return CsvName(match["chain"], match["table"], int(match["version"]), blocks)
