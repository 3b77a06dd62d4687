"""What was loaded and is in the warehouse no more: remembered until it was loaded again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from transforms.block_range import BlockRange
from transforms.coverage import difference, union
from transforms.errors import IntegrityError
from transforms.verifying.findings import LOAD
from transforms.warehouse.manifests.shapes import Volume

CAPTURES = "captures"
"""The kind of the spam captures; the others are those of volumes."""


@dataclass(frozen=True, order=True, slots=True)
class Loss:
    """Blocks of history, or the state after them of a schema version, or all spam captures."""

    kind: str
    first: int = 0
    last: int = 0
    version: int = 0

    def __str__(self) -> str:
        if self.kind == CAPTURES:
            return "the spam captures"
        if self.kind == "state":
            return f"the current state at block {self.last}"
        return f"the blocks {self.first} to {self.last}"

    def touches(self, blocks: BlockRange) -> bool:
        """Whether a segment has to be loaded again for it."""
        return self.kind != CAPTURES and self.first <= blocks.last and blocks.first <= self.last


class LostRowsError(IntegrityError):
    """Rows that were loaded are in no file; the message says which, and what to do."""

    def __init__(self, place: str, losses: Sequence[Loss]) -> None:
        more = f" (and {len(losses) - 1} more losses)" if len(losses) > 1 else ""
        self.what = f"lacks {losses[0]}{more}, which had been loaded and were lost"
        self.remedy = LOAD
        super().__init__(f"{place} {self.what}: {self.remedy}")


def volume_losses(
    losses: Collection[Loss], before: Sequence[Volume], after: Sequence[Volume]
) -> Iterator[Loss]:
    """What of earlier losses, and of the volumes before, the volumes afterwards do not hold.

    A state is replaced by one of its schema version that is not older.
    """
    earlier = (BlockRange(item.first, item.last) for item in losses if item.kind == "history")
    history = [*earlier, *(item.blocks for item in before if item.kind == "history")]
    present = union(item.blocks for item in after if item.kind == "history")
    for blocks in difference(union(history), present):
        yield Loss("history", blocks.first, blocks.last)
    states = [item for item in losses if item.kind == "state"]
    for item in before:
        if item.kind == "state":
            states.append(Loss("state", item.blocks.first, item.blocks.last, item.version))
    newest = {loss.version: loss for loss in sorted(states)}
    there = {item.version: item.blocks.last for item in after if item.kind == "state"}
    yield from (loss for loss in newest.values() if there.get(loss.version, -1) < loss.last)
