"""What a warehouse holds, as far as it can be read: from sound records, or else from volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter, itemgetter
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.record import RecordedIds, read_ids, read_record, recorded_receipts
from transforms.warehouse.shapes import Volume

_ORDER = attrgetter("blocks", "table")


@dataclass(slots=True)
class Holding:
    """The segments and receipts of volumes of history; `chain_id` is empty where there are none."""

    chain_id: str = ""
    unsettled: list[BlockRange] = field(default_factory=list)
    """The blocks of volumes that are so young that a run may be about to publish them."""
    _records: dict[str, tuple[BlockRange, Path]] = field(default_factory=dict)
    _others: list[Receipt] = field(default_factory=list)

    def add_record(self, volume: Volume, path: Path) -> None:
        """Take in a volume by its record. Raises `IntegrityError` where that is damaged."""
        read_record(path)
        self._records[volume.key] = (volume.blocks, path)

    def add_receipts(self, receipts: Iterable[Receipt]) -> None:
        """Take in a volume by its own receipts."""
        self._others = sorted([*self._others, *receipts], key=_ORDER)

    def of_volume(self, volume: Volume) -> list[BlockRange]:
        """The segments of a volume, ascending, as its record says; empty without a sound one."""
        if volume.key not in self._records:
            return []
        return [segment.blocks for segment in read_record(self._records[volume.key][1])]

    def segments(self) -> Iterator[BlockRange]:
        """All segments, in no order."""
        for _, path in self._records.values():
            yield from (segment.blocks for segment in read_record(path))
        yield from {receipt.blocks for receipt in self._others}

    def ids(self) -> Iterator[RecordedIds]:
        """The ids of the segments with sound records, ascending."""
        return (read_ids(path) for _, path in sorted(self._records.values(), key=itemgetter(0)))

    def receipts(self, blocks: BlockRange) -> Iterator[Receipt]:
        """The receipts of segments that begin in these blocks, ascending by block, then table."""
        paths = [path for span, path in self._records.values() if span.overlaps(blocks)]
        where = f"first_block between {blocks.first} and {blocks.last}"
        mine = (r for r in self._others if blocks.first <= r.blocks.first <= blocks.last)
        return merge(recorded_receipts(paths, where), mine, key=_ORDER)
