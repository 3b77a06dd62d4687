"""What compaction rewrites of a history that is loaded batch by batch, by the real planner.

Run it: `python -m tests.benchmarks.merge_simulation`. There are no files, only their sizes: a
merged volume is taken to be as large as those it is made of.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from transforms.block_range import BlockRange
from transforms.objects import StoredFile
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.merge.merge_plan import FULL_BYTES, plan_merges

SEGMENTS = 75_000
SEGMENT_SIZES = (300_000, 3_000_000, 30_000_000)
BATCHES = (1, 12, 100)
BLOCKS = 1_000
# A load begins another volume after 2 GiB of CSV; the less that is on disk, the more is merged.
_LOADED_BYTES = 512 * 2**20


def sized(blocks: BlockRange, size: int) -> Volume:
    """A volume of so many bytes on disk."""
    data = {"blocks": StoredFile("", size, "")}
    return Volume("history", StoredFile("", 0, ""), blocks, 1, 1, {}, data)


def is_full(volume: Volume) -> bool:
    """Whether a volume is never merged again."""
    return volume.size >= FULL_BYTES


@dataclass(slots=True)
class History:
    """Volumes to load into and merge, ascending, and what was counted meanwhile (in bytes)."""

    volumes: list[Volume]
    loaded: int = 0
    rewritten: int = 0
    rounds: int = 0
    most_partial: int = 0

    @property
    def amplification(self) -> float:
        """Bytes rewritten for each byte loaded."""
        return self.rewritten / self.loaded

    @property
    def partial(self) -> int:
        """How many volumes are not full."""
        return sum(not is_full(volume) for volume in self.volumes)

    def load(self, volumes: Iterable[Volume]) -> None:
        """Add volumes of one load, then compact."""
        for volume in volumes:
            self.volumes.insert(self._position(volume), volume)
            self.loaded += volume.size
        self.compact()
        self.most_partial = max(self.most_partial, self.partial)

    def compact(self) -> None:
        """Merge until nothing is planned."""
        while runs := list(plan_merges(self.volumes)):
            self.rounds += 1
            for run in reversed(runs):
                start = self._position(run[0])
                assert self.volumes[start : start + len(run)] == list(run)
                self.volumes[start : start + len(run)] = [merged(run)]
                self.rewritten += self.volumes[start].size

    def _position(self, volume: Volume) -> int:
        return bisect_left(self.volumes, volume.blocks.first, key=lambda held: held.blocks.first)


def merged(run: Sequence[Volume]) -> Volume:
    """The volume that a run becomes."""
    blocks = BlockRange(run[0].blocks.first, run[-1].blocks.last)
    return sized(blocks, sum(volume.size for volume in run))


def batch(first: int, segments: int, size: int) -> list[Volume]:
    """The volumes that one load makes of so many segments from a number on."""
    most = max(1, _LOADED_BYTES // size)
    return [
        sized(
            BlockRange(number * BLOCKS + 1, min(number + most, first + segments) * BLOCKS),
            min(most, first + segments - number) * size,
        )
        for number in range(first, first + segments, most)
    ]


def orders(batches: int) -> Iterator[tuple[str, Sequence[int]]]:
    """Ways in which the batches of a history may arrive."""
    numbers = list(range(batches))
    third = batches // 3
    yield "ascending", numbers
    yield "descending", numbers[::-1]
    yield "the middle last", numbers[:third] + numbers[2 * third :] + numbers[third : 2 * third]
    halves = (numbers[: batches // 2], numbers[batches // 2 :])
    pairs = zip_longest(*halves)
    yield (
        "both halves by turns",
        [number for pair in pairs for number in pair if number is not None],
    )
    # Several workers take batches in order and end in another one.
    near = random.Random(1)
    yield "by eight workers", sorted(numbers, key=lambda number: number + near.uniform(0, 8))
    yield "at random", random.Random(2).sample(numbers, batches)


def simulate(numbers: Iterable[int], segments: int, size: int) -> History:
    """Load batches of so many segments of a size (in bytes) in an order, compacting after each."""
    history = History([])
    for number in numbers:
        history.load(batch(number * segments, segments, size))
    return history


def table(scenarios: Iterable[tuple[str, int, int, History]]) -> str:
    """The scenarios (order, segments a batch, bytes a segment, history) as a table."""
    lines = [
        "| order | segments a load | MB a segment | rewritten per byte | volumes not full, at most "
        "| at the end | full |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += (
        f"| {order} | {segments} | {size / 1e6:g} | {history.amplification:.2f} "
        f"| {history.most_partial:,} | {history.partial:,} "
        f"| {len(history.volumes) - history.partial:,} |"
        for order, segments, size, history in scenarios
    )
    return "\n".join(lines)


def scenarios() -> Iterator[tuple[str, int, int, History]]:
    """Every batch and size in ascending order; every other order with one batch size."""
    for size in SEGMENT_SIZES:
        for segments in BATCHES:
            history = simulate(range(SEGMENTS // segments), segments, size)
            yield "ascending", segments, size, history
    for order, numbers in orders(SEGMENTS // BATCHES[-1]):
        if order != "ascending":
            for size in SEGMENT_SIZES:
                yield order, BATCHES[-1], size, simulate(numbers, BATCHES[-1], size)


def at_once() -> str:
    """What merging volumes of a segment each costs where nothing was ever merged before."""
    lines = ["| volumes | rounds | rewritten per byte | left |", "|---|---|---|---|"]
    for count in (2_000, SEGMENTS):
        history = History([])
        history.load(batch(number, 1, SEGMENT_SIZES[0])[0] for number in range(count))
        lines.append(
            f"| {count:,} of {SEGMENT_SIZES[0] / 1e6:g} MB | {history.rounds} "
            f"| {history.amplification:.2f} | {len(history.volumes)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    print(table(scenarios()))
    print()
    print(at_once())


if __name__ == "__main__":
    main()
