"""What a warehouse says that an archive should have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Protocol

from exporters.archive.shards import shard_blocks, shard_number
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.verification import Scope
from transforms.warehouse.manifests.holding import Holding
from transforms.warehouse.manifests.receipts import Receipt

Named = tuple[str, BlockRange]
"""A table and the blocks of a segment: one ZIP."""


class Expected(Protocol):
    """What is loaded, by the shards of the index that it belongs to."""

    def numbers(self) -> Collection[int]:
        """The shards in which there should be something."""
        ...

    def receipts(self, blocks: BlockRange) -> Mapping[Named, Receipt]:
        """What should be there of segments that begin in these blocks."""
        ...

    def origin(self, number: int) -> str:
        """Text that says which files of the warehouse tell what should be in a shard."""
        ...

    def is_loaded(self, blocks: BlockRange) -> bool:
        """Whether these blocks are a loaded segment."""
        ...

    def is_due(self, blocks: BlockRange) -> bool:
        """Whether a loaded segment should be published by now."""
        ...


class ExpectedOfHolding:
    """What a warehouse holds, in a scope; memory is that of one shard, and of all segments."""

    def __init__(self, holding: Holding, scope: Scope) -> None:
        self._holding = holding
        self._scope = scope
        self._segments = {segment for segment in holding.segments() if scope.reaches(segment)}
        self._numbers: defaultdict[int, int] = defaultdict(int)
        for blocks in self._segments:
            self._numbers[shard_number(blocks)] += 1

    def numbers(self) -> Collection[int]:
        """See `Expected.numbers`."""
        return self._numbers.keys()

    def receipts(self, blocks: BlockRange) -> Mapping[Named, Receipt]:
        """See `Expected.receipts`."""
        if shard_number(blocks) not in self._numbers:
            return {}
        return {
            (receipt.table, receipt.blocks): receipt
            for receipt in self._holding.receipts(blocks)
            if receipt.table in HISTORY_TABLES
            and self._scope.has_table(receipt.table)
            and receipt.blocks in self._segments
        }

    def origin(self, number: int) -> str:
        """See `Expected.origin`: manifests are named by their bytes."""
        return " ".join(self._holding.manifests(shard_blocks(number)))

    def is_loaded(self, blocks: BlockRange) -> bool:
        """See `Expected.is_loaded`."""
        return blocks in self._segments or any(map(blocks.overlaps, self._holding.unread))

    def is_due(self, blocks: BlockRange) -> bool:
        """See `Expected.is_due`."""
        return not any(map(blocks.overlaps, self._holding.unsettled))


class NothingExpected:
    """Of a chain whose warehouse is not known."""

    def numbers(self) -> Collection[int]:
        """None."""
        return ()

    def receipts(self, blocks: BlockRange) -> Mapping[Named, Receipt]:  # noqa: ARG002
        """None."""
        return {}

    def origin(self, number: int) -> str:  # noqa: ARG002
        """None."""
        return ""

    def is_loaded(self, blocks: BlockRange) -> bool:  # noqa: ARG002
        """Nothing can be said: no segment is missed."""
        return True

    def is_due(self, blocks: BlockRange) -> bool:  # noqa: ARG002
        """Nothing is expected."""
        return False
