"""What was loaded and is in the warehouse no more: remembered until it was loaded again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from transforms.block_range import BlockRange
from transforms.coverage import difference, union
from transforms.errors import IntegrityError
from transforms.verifying.findings import LOAD, REPAIR_AND_LOAD
from transforms.warehouse.manifests.shapes import Volume


@dataclass(frozen=True, order=True, slots=True)
class Loss:
    """Blocks of history, or the state after them of a schema version, or all spam captures."""

    kind: str
    blocks: BlockRange
    version: int = 0

    def __str__(self) -> str:
        if self == LOST_CAPTURES:
            return "the spam captures"
        if self.kind == "state":
            return f"the current state at block {self.blocks.last}"
        return f"the blocks {self.blocks.first} to {self.blocks.last}"

    def touches(self, blocks: BlockRange) -> bool:
        """Whether a segment has to be loaded again for it."""
        return self != LOST_CAPTURES and self.blocks.overlaps(blocks)


LOST_CAPTURES = Loss("captures", BlockRange(0, 0))
"""The loss that is of no volume."""


class LostRowsError(IntegrityError):
    """Rows that were loaded are in no file; the message says which, and what to do."""

    def __init__(self, place: str, losses: Sequence[Loss], *, are_named: bool = False) -> None:
        """`are_named` says that the log names files that are not there."""
        more = f" (and {len(losses) - 1} more losses)" if len(losses) > 1 else ""
        self.what = f"lacks {losses[0]}{more}, which had been loaded and were lost"
        self.remedy = REPAIR_AND_LOAD if are_named else LOAD
        super().__init__(f"{place} {self.what}: {self.remedy}")


def volume_losses(
    losses: Collection[Loss], before: Collection[Volume], after: Collection[Volume]
) -> Iterator[Loss]:
    """What of earlier losses, and of the volumes before, the volumes afterwards do not hold.

    A state is replaced by one of its schema version that is not older.
    """
    known: list[Loss | Volume] = [*losses, *before]
    history = union(each.blocks for each in known if each.kind == "history")
    present = union(volume.blocks for volume in after if volume.kind == "history")
    for blocks in difference(history, present):
        yield Loss("history", blocks)
    states = sorted((each for each in known if each.kind == "state"), key=lambda each: each.blocks)
    newest = {state.version: state.blocks for state in states}
    there = {volume.version: volume.blocks for volume in after if volume.kind == "state"}
    for version, blocks in newest.items():
        if version not in there or there[version].last < blocks.last:
            yield Loss("state", blocks, version)
