"""What is said of the CSV of one table of one segment, wherever it lies. No I/O here."""

from __future__ import annotations

from dataclasses import dataclass

from transforms.block_range import BlockRange
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema


@dataclass(frozen=True, slots=True)
class TableText:
    """The CSV of one table of one segment.

    `bytes` and `sha256` are those of all of it, header included; `rows` do not count the header.
    """

    segment: SegmentName
    schema: TableSchema
    rows: int
    bytes: int
    sha256: str

    @property
    def table(self) -> str:
        """The table's name."""
        return self.schema.table

    @property
    def blocks(self) -> BlockRange:
        """The segment's blocks."""
        return self.segment.blocks
