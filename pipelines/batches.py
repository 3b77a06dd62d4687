"""Which segments one run takes: consecutive ones, as many as the setting allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transforms.block_range import BlockRange


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive segments, ascending, that one run loads and publishes."""

    segments: tuple[BlockRange, ...]

    @property
    def blocks(self) -> BlockRange:
        """From the first block of the first segment to the last of the last."""
        return BlockRange(self.segments[0].first, self.segments[-1].last)

    def __str__(self) -> str:
        return str(self.blocks)

    def halves(self) -> tuple[Batch, ...]:
        """Two batches of half the size; none for a single segment.

        What failed as a whole is tried in halves, so that one bad segment in the end stands alone.
        """
        middle = len(self.segments) // 2
        return (Batch(self.segments[:middle]), Batch(self.segments[middle:])) if middle else ()


def plan_batches(
    segments: Iterable[BlockRange], most: int, partitions: Sequence[str] | None = None
) -> Iterator[Batch]:
    """Cut the wanted segments into batches of at most `most`, ascending.

    A run names its partitions by a first and a last one and takes all that were added between them
    (`partitions` is that order), so a batch also ends where the next segment was added elsewhere.
    Without runs, the order is that of the segments.
    """
    wanted = sorted(segments)
    keys = [blocks.key for blocks in wanted] if partitions is None else partitions
    places = {key: place for place, key in enumerate(keys)}
    batch: list[BlockRange] = []
    for blocks in wanted:
        if batch:
            adjoining = batch[-1].joins(blocks) and (
                places[blocks.key] == places[batch[-1].key] + 1
            )
            if len(batch) == most or not adjoining:
                yield Batch(tuple(batch))
                batch = []
        batch.append(blocks)
    if batch:
        yield Batch(tuple(batch))
