"""What a warehouse, or the manifests of a lake, say that an archive should have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporters.archive.shards import shard_blocks, shard_number
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, union
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.checks.warehouse_check import Holding
from transforms.warehouse.manifests.manifest import manifest_receipts
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


@dataclass
class KeptManifests:
    """Proven manifests by their blocks; none is known in `lacking`."""

    files: dict[BlockRange, Path] = field(default_factory=dict)
    lacking: list[BlockRange] = field(default_factory=list)

    def lacks(self, blocks: BlockRange) -> bool:
        """Whether nothing can be said of any of these blocks, for a damage that was found."""
        return any(map(blocks.overlaps, self.lacking))

    def of(self, table: str, blocks: BlockRange) -> list[Receipt] | None:
        """The receipts of a table in the segments of a file over these blocks, ascending.

        None where they are not known: manifests do not tell of all of these blocks.
        """
        if self.lacks(blocks) or difference((blocks,), union(self.files)):
            return None
        return self.receipts(blocks, table)

    def receipts(self, blocks: BlockRange, table: str | None = None) -> list[Receipt]:
        """The receipts of segments that begin in these blocks, ascending, perhaps of one table."""
        files = [path for own, path in self.files.items() if own.overlaps(blocks)]
        return [*manifest_receipts(files, blocks, table)]
