"""What a load leaves on record: per segment, and per table of a segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from transforms.segments.id_chain import IdRun
from transforms.segments.inventory import SegmentFile
from transforms.segments.table_text import TableText


@dataclass(frozen=True, slots=True)
class Receipt(TableText):
    """One table of one segment, proven to render back to its source.

    `raw_cells` counts, per column, the cells of which the data file keeps the text.
    """

    raw_cells: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadedSegment(SegmentFile):
    """A segment in the warehouse: its file as it was read, its ids, and its history's size.

    `sha256` is that of the segment ZIP, `segment_id` the network's id, computed from its bytes,
    `previous_id` the id of the segment it was made after, by its own word; `rows` and `bytes` sum
    over the history tables. `foreign_rows` counts, by history table, the rows whose time belongs to
    no block of the segment.
    """

    sha256: str
    segment_id: str
    previous_id: str
    rows: int
    bytes: int
    foreign_rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def id_run(self) -> IdRun:
        """The segment as the chain of ids has it."""
        return IdRun(self.blocks, self.blocks, self.segment_id, self.previous_id)
