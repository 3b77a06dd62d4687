"""What a warehouse holds, as far as its manifests can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.warehouse.manifests.manifest import (
    SegmentIds,
    manifest_receipts,
    read_ids,
    read_manifest,
)
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume


@dataclass(slots=True)
class Holding:
    """The segments and receipts of volumes of history; `chain_id` is empty where there are none."""

    chain_id: str = ""
    unsettled: list[BlockRange] = field(default_factory=list)
    """The blocks of volumes that are so young that a run may be about to publish them."""
    unread: list[BlockRange] = field(default_factory=list)
    """The blocks of volumes whose manifest cannot be read."""
    _manifests: dict[str, tuple[BlockRange, Path]] = field(default_factory=dict)

    def add(self, volume: Volume, path: Path) -> None:
        """Take in a volume by its manifest. Raises `IntegrityError` where that is damaged."""
        read_manifest(path)
        self._manifests[volume.key] = (volume.blocks, path)

    def of_volume(self, volume: Volume) -> list[BlockRange]:
        """The segments of a volume, ascending; empty without a sound manifest."""
        if volume.key not in self._manifests:
            return []
        return [segment.blocks for segment in read_manifest(self._manifests[volume.key][1])]

    def segments(self) -> Iterator[BlockRange]:
        """All segments, in no order."""
        for _, path in self._manifests.values():
            yield from (segment.blocks for segment in read_manifest(path))

    def ids(self) -> Iterator[SegmentIds]:
        """The ids of the segments, ascending."""
        return (read_ids(path) for _, path in sorted(self._manifests.values(), key=itemgetter(0)))

    def manifests(self, blocks: BlockRange) -> list[str]:
        """The keys of the manifests of volumes that have any of these blocks, ascending."""
        return sorted(key for key, (own, _) in self._manifests.items() if own.overlaps(blocks))

    def receipts(self, blocks: BlockRange) -> Iterator[Receipt]:
        """The receipts of segments that begin in these blocks, ascending by block, then table."""
        paths = [path for span, path in self._manifests.values() if span.overlaps(blocks)]
        where = f"first_block between {blocks.first} and {blocks.last}"
        return manifest_receipts(paths, where)
