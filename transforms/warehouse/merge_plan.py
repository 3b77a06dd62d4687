"""Which volumes of history to merge, so that few are left and little is rewritten. No I/O here.

A volume is *full* from half of `MAX_VOLUME_BYTES` on: it is never merged again. All others are
*partial*. Sizes are divided by thresholds that are `FAN` apart: 9/10 of `MAX_VOLUME_BYTES` (3.6
GiB), 322 MB, 26.8 MB, 2.2 MB, 186 kB and so on. Neighbours below a threshold are merged, all of
them, as soon as they reach it together. So

- each rewriting takes a row over a threshold, into whatever order the segments arrive: of what is
  loaded in volumes of 186 kB or more, no byte is rewritten more than four times;
- of volumes that arrive in ascending (or descending) order, fewer than `FAN` lie between one
  threshold and the next: at most 44 partial ones of 186 kB or more.

Two rules are for what the thresholds leave. Partial volumes with full ones on both sides, to which
nothing can be added any more, become one. And more than `MOST_PARTIAL` neighbours, which segments
that arrive in no order can leave (small between large, large between larger), are thinned out where
that costs least: only this may rewrite a byte a fifth time.

When nothing is planned any more, the volumes of a run without a gap are therefore: full ones, fewer
than twice the run's bytes by `MAX_VOLUME_BYTES`; at most `MOST_PARTIAL` partial ones at its start
and at its end each; and one partial volume between two full ones where a gap was filled. A history
that was loaded in ascending order has its full volumes and a few dozen at its end that are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, Protocol, TypeVar

from transforms.blocks import BlockRange

MAX_VOLUME_BYTES = 4 * 2**30
"""A merged volume is not larger than this on disk."""

FULL_BYTES = MAX_VOLUME_BYTES // 2
"""A volume of this size on disk is not merged any further."""

FAN = 12
"""How far apart the thresholds are: with more, less is rewritten and more volumes are left."""

MOST_PARTIAL = 48
"""How many neighbouring volumes that are not full may be left."""

MOST_AT_ONCE = 64
"""How many volumes one merge takes: files that are attached at once cost memory and handles."""


class Sized(Protocol):
    """What planning has to know of a volume: its blocks and its bytes on disk."""

    @property
    def blocks(self) -> BlockRange:
        """The blocks of its segments."""

    @property
    def size(self) -> int:
        """Bytes on disk."""


class Sortable(Protocol):
    """What has to be known of a volume to tell whether it is worth to be sorted anew."""

    @property
    def sorted(self) -> bool:
        """Whether its rows stand sorted as a whole; a merged volume's do."""


_Volume = TypeVar("_Volume", bound=Sized)
_Sortable = TypeVar("_Sortable", bound=Sortable)


def plan_merges(
    volumes: Iterable[_Volume], fan: int = FAN, most_partial: int = MOST_PARTIAL
) -> Iterator[Sequence[_Volume]]:
    """The runs of neighbours to merge now, of volumes that ascend and do not overlap.

    Runs do not overlap, ascend inside, have no gaps, and hold two to `MOST_AT_ONCE` volumes of at
    most `MAX_VOLUME_BYTES` together. Plan again after merging, until there is nothing: each merge
    leaves fewer volumes, so that this ends. Takes time in proportion to the number of volumes, but
    for sorting where there are too many.
    """
    for run in _partial_runs(volumes):
        yield from _merges(run, fan, most_partial)


def unsorted(volumes: Iterable[_Sortable]) -> Iterator[_Sortable]:
    """The volumes whose rows stand sorted in parts only: those loaded in parts and never merged.

    To rewrite them costs each loaded byte at most once, beside what merging costs, and only the
    bytes of volumes that were never merged; a merge that comes first makes it unnecessary.
    """
    return (volume for volume in volumes if not volume.sorted)


@dataclass(slots=True)
class _PartialRun(Generic[_Volume]):
    """Neighbouring partial volumes without a gap; whether full ones join before and after them."""

    volumes: list[_Volume]
    follows_full: bool
    precedes_full: bool = False


def _partial_runs(volumes: Iterable[_Volume]) -> Iterator[_PartialRun[_Volume]]:
    """The longest runs of partial volumes without a gap."""
    run: _PartialRun[_Volume] | None = None
    previous: _Volume | None = None
    for volume in volumes:
        joins = previous is not None and previous.blocks.joins(volume.blocks)
        full = volume.size >= FULL_BYTES
        if run and (full or not joins):
            run.precedes_full = joins
            yield run
            run = None
        if run:
            run.volumes.append(volume)
        elif not full:
            run = _PartialRun([volume], follows_full=joins)
        previous = volume
    if run:
        yield run


def _merges(
    run: _PartialRun[_Volume], fan: int, most_partial: int
) -> Iterator[Sequence[_Volume]]:
    count = len(run.volumes)
    if count == 1:
        return
    sizes = [volume.size for volume in run.volumes]
    enclosed = run.follows_full and run.precedes_full
    if enclosed and count <= MOST_AT_ONCE and sum(sizes) <= MAX_VOLUME_BYTES:
        yield run.volumes
        return
    # What is left of a run shall lie where more may arrive, not enclosed by full volumes.
    backwards = run.precedes_full and not run.follows_full
    spans = _spans(sizes[::-1] if backwards else sizes, fan, most_partial)
    for start, end in spans:
        yield run.volumes[count - end : count - start] if backwards else run.volumes[start:end]


def _spans(sizes: Sequence[int], fan: int, most_partial: int) -> Iterator[tuple[int, int]]:
    """Where to merge neighbours of these sizes: (start, end)."""
    planned = False
    for threshold in _thresholds(min(sizes), sum(sizes), fan):
        for span in _worthwhile(sizes, threshold):
            yield span
            planned = True
        if planned:
            return
    if len(sizes) > most_partial:
        yield from _cheapest(sizes, fan, len(sizes) - most_partial)


def _thresholds(smallest: int, total: int, fan: int) -> Iterator[float]:
    """The thresholds above the smallest size, descending: the highest saves the merges below it."""
    threshold = MAX_VOLUME_BYTES * 0.9
    while threshold > max(smallest, 1):
        if threshold <= total:
            yield threshold
        threshold /= fan


def _worthwhile(sizes: Sequence[int], threshold: float) -> Iterator[tuple[int, int]]:
    """Where neighbours below a threshold reach it together, or cannot be added to: (start, end)."""
    below = min(threshold, FULL_BYTES)
    start, total = 0, 0
    for end, size in enumerate(sizes):
        too_large = total + size > MAX_VOLUME_BYTES
        if size >= below or too_large or end - start == MOST_AT_ONCE:
            # What is too large together with a partial volume is full itself.
            if total >= threshold or (too_large and total >= FULL_BYTES):
                yield start, end
            start, total = end, 0
        if size < below:
            total += size
        else:
            start = end + 1
    if total >= threshold:
        yield start, len(sizes)


def _cheapest(sizes: Sequence[int], fan: int, excess: int) -> Iterator[tuple[int, int]]:
    """Where `fan` neighbours have the fewest bytes, as often as it takes to be rid of `excess`."""
    width = min(fan, len(sizes))
    sums = [0, *accumulate(sizes)]
    costs = [sums[start + width] - sums[start] for start in range(len(sizes) - width + 1)]
    taken = bytearray(len(sizes))
    for start in sorted(range(len(costs)), key=costs.__getitem__):
        end = start + width
        if excess <= 0 or costs[start] > MAX_VOLUME_BYTES:
            return
        if not taken[start] and not taken[end - 1]:
            taken[start:end] = b"\1" * width
            excess -= width - 1
            yield start, end
