"""What a warehouse says that an archive should have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from exporters.archive.shards import shard_blocks, shard_number
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, union
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.verification import Scope
from transforms.warehouse.checks.warehouse_check import Holding
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume

Named = tuple[str, BlockRange]
"""A table and the blocks of a segment: one ZIP."""


class Expected:
    """What a warehouse holds, in a scope, by the shards of the index that it belongs to.

    Memory is that of one shard, and of all segments. Of a chain whose warehouse is not known
    (`holding` is None) nothing is expected, and nothing is missed.
    """

    def __init__(self, holding: Holding | None = None, scope: Scope | None = None) -> None:
        self._is_known = holding is not None
        self._holding = holding or Holding()
        self._scope = scope or Scope()
        self._catalog = self._holding.catalog
        segments = self._catalog.blocks if self._catalog else ()
        self._segments = {segment for segment in segments if self._scope.reaches(segment)}
        self._hulls: dict[int, BlockRange] = {}
        for blocks in sorted(self._segments):
            first = self._hulls.get(shard_number(blocks), blocks).first
            self._hulls[shard_number(blocks)] = BlockRange(first, blocks.last)

    def numbers(self) -> Collection[int]:
        """The shards in which there should be something."""
        return self._hulls.keys()

    def receipts(self, blocks: BlockRange) -> Mapping[Named, Receipt]:
        """What should be there of segments that begin in these blocks."""
        hull = self._hulls.get(shard_number(blocks))
        if hull is None or self._catalog is None:
            return {}
        begin = f"first_block between {blocks.first} and {blocks.last}"
        return {
            (receipt.table, receipt.blocks): receipt
            for receipt in self._catalog.receipts(hull, begin)
            if receipt.table in HISTORY_TABLES
            and self._scope.has_table(receipt.table)
            and receipt.blocks in self._segments
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
