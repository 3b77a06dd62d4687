"""What a warehouse, or the manifests of a lake, say that an archive should have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from exporters.archive.shards import shard_blocks, shard_number
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, union
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.checks.warehouse_check import Holding
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume

Named = tuple[str, BlockRange]
"""A table and the blocks of a segment: one ZIP."""


class Expected:
    """What a warehouse holds, by the shards of the index that it belongs to.

    Memory is that of one shard, and of all segments. Of a chain whose warehouse is not known
    (`holding` is None) nothing is expected, and nothing is missed.
    """

    def __init__(self, holding: Holding | None = None) -> None:
        self._is_known = holding is not None
        self._holding = holding or Holding()
        self._catalog = self._holding.catalog
        self._segments = set(self._catalog.blocks if self._catalog else ())
        self._shards = set(map(shard_number, self._segments))

    def numbers(self) -> Collection[int]:
        """The shards in which there should be something."""
        return self._shards

    def receipts(self, blocks: BlockRange) -> Mapping[Named, Receipt]:
        """What should be there of segments that begin in these blocks."""
        if self._catalog is None or shard_number(blocks) not in self._shards:
            return {}
        return {
            (receipt.table, receipt.blocks): receipt
            for receipt in self._catalog.receipts(blocks)
            if receipt.table in HISTORY_TABLES
        }

    def origin(self, number: int) -> str:
        """Which manifests tell what should be in a shard: they are named by their bytes."""
        volumes = self._catalog.volumes_over(shard_blocks(number)) if self._catalog else ()
        return " ".join(sorted(volume.key for volume in volumes))

    def is_loaded(self, blocks: BlockRange) -> bool:
        """Whether these blocks are a loaded segment, or may be one."""
        is_unread = any(map(blocks.overlaps, self._holding.unread))
        return not self._is_known or blocks in self._segments or is_unread

    def is_due(self, blocks: BlockRange) -> bool:
        """Whether a loaded segment should be published by now."""
        return not any(map(blocks.overlaps, self._holding.unsettled))

    def volumes(self) -> Sequence[Volume]:
        """The volumes of history whose manifests can be read."""
        return self._catalog.history() if self._catalog else ()

    @property
    def loaded(self) -> Coverage:
        """The blocks of loaded segments, and of what may be some."""
        return union((*self._segments, *self._holding.unread))

    @property
    def unsettled(self) -> Coverage:
        """The blocks of volumes that a run may be about to publish."""
        return union(self._holding.unsettled)
