"""Covering a range with ranges that join: the cheapest choice among those there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from transforms.block_range import BlockRange

_What = TypeVar("_What")


@dataclass(frozen=True, slots=True)
class Candidate(Generic[_What]):
    """Something that holds `blocks`, and what taking it costs (in whole numbers above 0)."""

    blocks: BlockRange
    cost: int
    what: _What


def cheapest_cover(
    blocks: BlockRange, candidates: Iterable[Candidate[_What]]
) -> tuple[_What, ...] | None:
    """The candidates that join into exactly `blocks` at the least cost, ascending; None: none do.

    Candidates that hold other blocks are left out; where two choices cost the same, the wider
    candidate comes first.
    """
    # What it costs from a block to the end, and the candidate that comes first.
    best: dict[int, tuple[int, Candidate[_What] | None]] = {blocks.last + 1: (0, None)}
    for candidate in sorted(candidates, key=_place, reverse=True):
        run = candidate.blocks
        after = best.get(run.last + 1)
        if after is None or run.first < blocks.first:
            continue
        cost = after[0] + candidate.cost
        if run.first not in best or cost < best[run.first][0]:
            best[run.first] = (cost, candidate)
    return tuple(_followed(best, blocks.first)) if blocks.first in best else None


def _place(candidate: Candidate[_What]) -> tuple[int, int]:
    return (candidate.blocks.first, candidate.blocks.last)


def _followed(best: dict[int, tuple[int, Candidate[_What] | None]], block: int) -> Iterator[_What]:
    candidate = best[block][1]
    while candidate is not None:
        yield candidate.what
        candidate = best[candidate.blocks.last + 1][1]
