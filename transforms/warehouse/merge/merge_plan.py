"""Which volumes of history to merge, so that few are left and little is rewritten. No I/O here.

A volume is *full* from half of `MAX_VOLUME_BYTES` on: it is never merged again. All others are
*partial*. There are four thresholds, `FAN` apart: 3.6 GiB, 322 MB, 26.8 MB and 2.2 MB. Neighbours
below a threshold are merged, all of them, as soon as they reach it together. So

- each rewriting takes a row over a threshold, in whatever order the segments arrive: no byte is
  rewritten more than four times, and none of volumes that were loaded larger than 2.2 MB more than
  three times;
- of volumes that arrive in ascending (or descending) order, fewer than `FAN` lie between one
  threshold and the next, and those below the lowest have less than 2.2 MB together: at most 40
  partial ones where each was 0.3 MB or more.

More than `MOST_PARTIAL` neighbours, which very small volumes or segments in no order can leave
(small between large between larger), are thinned out where that costs least: only this may rewrite
a byte more often than said above.

When nothing is planned any more, the volumes of a run without a gap are therefore full ones, at
most twice as many as `MAX_VOLUME_BYTES` goes into the run's bytes, and at most `MOST_PARTIAL`
partial ones at its start, at its end, and where a gap was filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from transforms.warehouse.manifests.shapes import Volume

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


# Descending. The highest is not the whole: the last volume that is added must fit. There is none
# below 2 MB: volumes that small are mostly padding, and smaller once merged.
_THRESHOLDS = tuple(MAX_VOLUME_BYTES * 0.9 / FAN**step for step in range(4))


def plan_merges(
    volumes: Iterable[Volume], most_partial: int = MOST_PARTIAL
) -> Iterator[Sequence[Volume]]:
    """The runs of neighbours to merge now, of volumes that ascend and do not overlap.

    Runs do not overlap, ascend inside, have no gaps, and hold two to `MOST_AT_ONCE` volumes of at
    most `MAX_VOLUME_BYTES` bytes together. Plan again after merging, until there is nothing: each
    merge leaves fewer volumes, so that this ends. Takes time in proportion to their number.
    """
    for run, precedes_full in _partial_runs(volumes):
        sizes, count = [volume.size for volume in run], len(run)
        # What is left of a run shall lie where more may arrive, not enclosed by full volumes.
        for start, end in _spans(sizes[::-1] if precedes_full else sizes, most_partial):
            yield run[count - end : count - start] if precedes_full else run[start:end]


def _partial_runs(volumes: Iterable[Volume]) -> Iterator[tuple[list[Volume], bool]]:
    """The longest runs of partial volumes without a gap; whether a full one joins at the end."""
    run: list[Volume] = []
    for volume in volumes:
        joins = bool(run) and run[-1].blocks.joins(volume.blocks)
        is_full = volume.size >= FULL_BYTES
        if run and (is_full or not joins):
            yield run, joins
            run = []
        if not is_full:
            run.append(volume)
    if run:
        yield run, False


def _spans(sizes: Sequence[int], most_partial: int) -> list[tuple[int, int]]:
    """Where to merge neighbours of these sizes: (start, end)."""
    smallest, total = min(sizes), sum(sizes)
    for threshold in _THRESHOLDS:  # the highest first: it saves the merges below it
        spans = _worthwhile(sizes, threshold) if smallest < threshold <= total else []
        if spans:
            return spans
    if len(sizes) <= max(1, most_partial):
        return []
    width = min(FAN, len(sizes))
    costs = [sum(sizes[at : at + width]) for at in range(len(sizes) - width + 1)]
    start = costs.index(min(costs))
    return [(start, start + width)] if costs[start] <= MAX_VOLUME_BYTES else []


def _worthwhile(sizes: Sequence[int], threshold: float) -> list[tuple[int, int]]:
    """Where neighbours below a threshold reach it together, or the next would be too much."""
    below = min(threshold, FULL_BYTES)
    spans: list[tuple[int, int]] = []
    start, total = 0, 0
    for end, size in enumerate(sizes):
        too_large = total + size > MAX_VOLUME_BYTES
        if size >= below or too_large or end - start == MOST_AT_ONCE:
            # What is too large together with a partial volume is full itself.
            if total >= threshold or (too_large and total >= FULL_BYTES):
                spans.append((start, end))
            start, total = end, 0
        if size < below:
            total += size
        else:
            start = end + 1
    if total >= threshold:
        spans.append((start, len(sizes)))
    return spans
