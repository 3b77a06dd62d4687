"""Covering a range with ranges that join: the cheapest choice among those there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from transforms.block_range import BlockRange, BlockRanges


def cheapest_cover(
    blocks: BlockRange, candidates: BlockRanges, costs: Sequence[int]
) -> list[int] | None:
    """The numbers of candidates that join into exactly `blocks` at the least cost, ascending.

    Costs are whole numbers above 0. Candidates that hold other blocks are left out; where two
    choices cost the same, the wider candidate comes first, and of equal ones the first is taken.
    None where no choice joins.
    """
    # What it costs from a block to the end, the candidate that comes first, and where that ends.
    best = {blocks.last + 1: (0, -1, -1)}
    ordered = sorted(
        zip(candidates.firsts, candidates.lasts, count(0, -1), costs, strict=False), reverse=True
    )
    for first, last, number, cost in ordered:
        after = best.get(last + 1)
        if after is None or first < blocks.first:
            continue
        total = after[0] + cost
        before = best.get(first)
        if before is None or total < before[0]:
            best[first] = (total, -number, last)
    return [*_followed(best, blocks)] if blocks.first in best else None


def _followed(best: Mapping[int, tuple[int, int, int]], blocks: BlockRange) -> Iterator[int]:
    block = blocks.first
    while block <= blocks.last:
        _, number, last = best[block]
        yield number
        block = last + 1
