"""Arithmetic of block ranges, against plain sets of blocks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, intersection, union

ranges = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 9)).map(lambda r: BlockRange(r[0], r[0] + r[1])),
    max_size=8,
)


def blocks_of(runs: Iterable[BlockRange]) -> set[int]:
    return {block for run in runs for block in range(run.first, run.last + 1)}


def is_coverage(runs: Coverage) -> bool:
    return all(one.last + 1 < other.first for one, other in pairwise(runs))


@given(ranges)
def test_a_union_holds_every_block_once(some: list[BlockRange]) -> None:
    runs = union(some)
    assert is_coverage(runs)
    assert blocks_of(runs) == blocks_of(some)


@given(ranges, ranges)
def test_an_intersection_holds_the_blocks_of_both(
    some: list[BlockRange], others: list[BlockRange]
) -> None:
    runs = intersection(union(some), union(others))
    assert is_coverage(runs)
    assert blocks_of(runs) == blocks_of(some) & blocks_of(others)


@given(ranges, ranges)
def test_a_difference_holds_the_blocks_of_the_first_alone(
    some: list[BlockRange], others: list[BlockRange]
) -> None:
    runs = difference(union(some), union(others))
    assert is_coverage(runs)
    assert blocks_of(runs) == blocks_of(some) - blocks_of(others)
