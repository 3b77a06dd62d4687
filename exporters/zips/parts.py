"""Parts: the CSVs of ZIPs that exist, ready to be joined to their neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.zip_names import parse_csv_name
from exporters.zips.container import Member
from exporters.zips.layout import Slice
from exporters.zips.reader import read_members
from exporters.zips.sources import ByteSource
from transforms.block_range import BlockRange


@dataclass(frozen=True, slots=True)
class PartRef:
    """One CSV in a ZIP that exists: a table over `blocks` with one set of columns."""

    source: ByteSource
    member: Member
    version: int
    blocks: BlockRange

    @property
    def runs(self) -> Slice:
        """The bytes of its header run and its body runs."""
        length = self.member.header.deflated + self.member.body.deflated
        return Slice(self.source, self.member.data_offset, length)

    @property
    def body(self) -> Slice:
        """The bytes of its body runs."""
        start = self.member.data_offset + self.member.header.deflated
        return Slice(self.source, start, self.member.body.deflated)


def read_parts(source: ByteSource) -> tuple[PartRef, ...]:
    """The parts that a ZIP of this archive offers, one for each of its CSVs.

    Raises `IntegrityError` where the ZIP is damaged or was not made here.
    """
    names = ((member, parse_csv_name(member.name)) for member in read_members(source))
    return tuple(PartRef(source, member, name.version, name.blocks) for member, name in names)
