"""What a load leaves on record: per segment, and per table of a segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from transforms.block_range import BlockRange
from transforms.objects import ObjectInfo
from transforms.segments.id_chain import IdRun
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema


@dataclass(frozen=True, slots=True)
class Receipt:
    """One table of one segment, proven to render back to its source.

    `bytes` and `sha256` are those of the CSV, header included; `raw_cells` counts, per column, the
    cells of which the data file keeps the text.
    """

    segment: SegmentName
    schema: TableSchema
    rows: int
    bytes: int
    sha256: str
    raw_cells: Mapping[str, int] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """The table's name."""
        return self.schema.table

    @property
    def blocks(self) -> BlockRange:
        """The segment's blocks."""
        return self.segment.blocks


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    """A segment in the warehouse: its file as it was read, its ids, and its history's size.

    `sha256` is that of the segment ZIP, `segment_id` the network's id, computed from its bytes,
    `previous_id` the id of the segment it was made after, by its own word, `index_id` its id by the
    word of its source's `index.json`; `rows` and `bytes` sum over the history tables.
    """

    name: SegmentName
    info: ObjectInfo
    sha256: str
    segment_id: str
    previous_id: str
    rows: int
    bytes: int
    index_id: str = ""

    @property
    def blocks(self) -> BlockRange:
        """The blocks that the segment covers."""
        return self.name.blocks

    @property
    def id_run(self) -> IdRun:
        """The segment as the chain of ids has it."""
        return IdRun(self.blocks, self.blocks, self.segment_id, self.previous_id)
