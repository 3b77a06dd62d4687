"""The one definition of how far a place is behind, by sets of blocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transforms.block_range import BlockRange
from transforms.coverage import behind, union

_RANGES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 12)).map(
        lambda pair: BlockRange(pair[0], pair[0] + pair[1])
    ),
    max_size=8,
)


def _blocks(ranges: list[BlockRange]) -> set[int]:
    return {block for one in ranges for block in range(one.first, one.last + 1)}


@given(shown=_RANGES, present=_RANGES, since=st.integers(0, 70))
def test_it_counts_the_blocks_that_are_shown_and_lack(
    shown: list[BlockRange], present: list[BlockRange], since: int
) -> None:
    loaded = _blocks(present)
    apart = union(BlockRange(block, block) for block in loaded)
    lacking = {block for block in _blocks(shown) - loaded if block >= since}
    assert behind(shown, apart, since) == len(lacking)
