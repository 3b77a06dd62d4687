from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipelines.batches import plan_batches
from transforms.block_range import BlockRange


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[BlockRange], list[str], int]:
    """Segments of any length with gaps, some of them wanted, their keys in any order of adding."""
    lengths = draw(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12))
    segments: list[BlockRange] = []
    first = 1
    for length, gap in lengths:
        first += gap
        segments.append(BlockRange(first, first + length - 1))
        first += length
    wanted = [blocks for blocks in segments if draw(st.booleans())]
    order = draw(st.permutations([blocks.key for blocks in segments]))
    return wanted, order, draw(st.integers(1, 4))


@given(histories())
def test_batches_hold_every_wanted_segment_once_and_a_run_takes_nothing_else(
    history: tuple[list[BlockRange], list[str], int],
) -> None:
    wanted, order, most = history

    batches = list(plan_batches(reversed(wanted), most, order))

    assert [blocks for batch in batches for blocks in batch.segments] == wanted
    for batch in batches:
        assert 1 <= len(batch.segments) <= most
        assert all(one.joins(other) for one, other in pairwise(batch.segments))
        # What Dagster makes of the range's first and last key.
        start = order.index(batch.segments[0].key)
        stop = order.index(batch.segments[-1].key) + 1
        assert sorted(order[start:stop]) == [blocks.key for blocks in batch.segments]


def test_consecutive_segments_added_in_order_fill_whole_batches() -> None:
    segments = [BlockRange(first, first + 9) for first in range(1, 71, 10)]

    batches = plan_batches(segments, 3)

    assert [str(batch) for batch in batches] == ["1-30", "31-60", "61-70"]
