"""Parts: the CSVs of ZIPs that exist, ready to be joined to their neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from operator import add

from exporters.zip_names import parse_csv_name
from exporters.zips.container import Member
from exporters.zips.layout import Slice
from exporters.zips.reader import read_members
from exporters.zips.runs import Run
from exporters.zips.sources import ByteSource
from transforms.block_range import BlockRange


@dataclass(frozen=True, slots=True)
class PartRef:
    """One CSV in a ZIP that exists: a table over `blocks` with one set of columns."""

    source: ByteSource
    member: Member
    version: int
    blocks: BlockRange


@dataclass(frozen=True, slots=True)
class PartColumns:
    """Parts that join into one CSV, ascending, as columns: of a whole history there are 75,000.

    `offsets` are where their header runs begin in the sources.
    """

    sources: list[ByteSource] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    header_deflated: list[int] = field(default_factory=list)
    header_plain: list[int] = field(default_factory=list)
    header_crcs: list[int] = field(default_factory=list)
    body_deflated: list[int] = field(default_factory=list)
    body_plain: list[int] = field(default_factory=list)
    body_crcs: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[PartRef]) -> PartColumns:
        """The columns of parts."""
        columns = cls()
        for part in parts:
            member = part.member
            columns.sources.append(part.source)
            columns.offsets.append(member.data_offset)
            columns.header_deflated.append(member.header.deflated)
            columns.header_plain.append(member.header.plain)
            columns.header_crcs.append(member.header.crc32)
            columns.body_deflated.append(member.body.deflated)
            columns.body_plain.append(member.body.plain)
            columns.body_crcs.append(member.body.crc32)
            columns.rows.append(member.rows)
        return columns

    def extend(self, following: PartColumns) -> None:
        """Add the parts after these."""
        for column in fields(self):
            getattr(self, column.name).extend(getattr(following, column.name))

    @property
    def header(self) -> Run:
        """The header run of the first of them, which stands for all."""
        return Run(self.header_deflated[0], self.header_plain[0], self.header_crcs[0])

    @property
    def body(self) -> Run:
        """The body runs of all, one after the other."""
        return Run.joined(self.body_deflated, self.body_plain, self.body_crcs)

    def slices(self) -> Iterator[Slice]:
        """The bytes of the first header run and of all body runs, in order."""
        starts = map(add, self.offsets, self.header_deflated)
        bodies = map(Slice, self.sources, starts, self.body_deflated)
        first = next(bodies)
        header = self.header_deflated[0]
        yield Slice(first.source, first.offset - header, header + first.length)
        yield from (body for body in bodies if body.length)


def read_parts(source: ByteSource) -> tuple[PartRef, ...]:
    """The parts that a ZIP of this archive offers, one for each of its CSVs.

    Raises `IntegrityError` where the ZIP is damaged or was not made here.
    """
    names = ((member, parse_csv_name(member.name)) for member in read_members(source))
    return tuple(PartRef(source, member, name.version, name.blocks) for member, name in names)
