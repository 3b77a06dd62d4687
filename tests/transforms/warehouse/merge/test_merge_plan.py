"""Which volumes are merged: few are left and little is rewritten, in whatever order they come."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.merge_simulation import (
    SEGMENT_SIZES,
    SEGMENTS,
    History,
    batch,
    is_full,
    merged,
    orders,
    simulate,
    sized,
)
from transforms.block_range import BlockRange
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.merge import merge_plan
from transforms.warehouse.merge.merge_plan import (
    FAN,
    FULL_BYTES,
    MAX_VOLUME_BYTES,
    MOST_AT_ONCE,
    MOST_PARTIAL,
    plan_merges,
)

MB = 10**6
GAP = None
AMPLIFICATION = 4


def volumes(*sizes: int | None) -> list[Volume]:
    """Neighbouring volumes of these sizes, with gaps."""
    return [
        sized(BlockRange(number * 10, number * 10 + 9), size)
        for number, size in enumerate(sizes)
        if size is not GAP
    ]


def planned(*sizes: int | None) -> list[list[int]]:
    """Which of the sizes (by number; gaps count) are merged, ascending."""
    runs = plan_merges(volumes(*sizes))
    return sorted([volume.blocks.first // 10 for volume in run] for run in runs)


def joins(held: Sequence[Volume], number: int) -> bool:
    return held[number - 1].blocks.joins(held[number].blocks)


def few(held: Sequence[Volume]) -> bool:
    """Whether no more volumes are left than `plan_merges` promises."""
    count = 0
    for number, volume in enumerate(held):
        joined = count if number and joins(held, number) else 0
        count = 0 if is_full(volume) else joined + 1
        if count > MOST_PARTIAL:
            return False
    return True


def test_neighbours_are_merged_once_they_reach_a_threshold_together() -> None:
    assert planned(*[2_300_000] * (FAN - 1)) == []
    assert planned(*[2_300_000] * FAN) == [list(range(FAN))]


def test_small_neighbours_merge_without_the_large_one_beside_them() -> None:
    assert planned(500 * MB, *[3 * MB] * FAN) == [list(range(1, FAN + 1))]


def test_what_is_smaller_goes_along_wherever_it_lies() -> None:
    sizes = [100_000, *[3 * MB] * 6, 100_000, *[3 * MB] * 6, 100_000]
    assert planned(*sizes) == [list(range(len(sizes)))]


def test_one_merge_takes_a_run_over_all_thresholds_that_it_reaches() -> None:
    sizes = [*[330 * MB] * 11, *[28 * MB] * 11, *[3 * MB] * 9, 100_000]
    assert planned(*sizes) == [list(range(len(sizes)))]


def test_volumes_on_both_sides_of_a_gap_stay_apart() -> None:
    assert planned(*[3 * MB] * 6, GAP, *[3 * MB] * 6) == []


def test_one_merge_takes_only_so_many_files() -> None:
    assert planned(*[100_000] * 100) == [list(range(MOST_AT_ONCE)), list(range(MOST_AT_ONCE, 100))]


def test_a_full_volume_is_never_merged_again() -> None:
    assert planned(*[FULL_BYTES] * FAN) == []
    assert planned(*[FULL_BYTES - 1] * 2) == [[0, 1]]


def test_a_merged_volume_stays_below_the_largest_size_and_the_rest_waits_at_the_end() -> None:
    large = MAX_VOLUME_BYTES * 2 // 5
    assert planned(*[large] * 5) == [[0, 1], [2, 3]]


def test_the_rest_waits_where_more_may_arrive() -> None:
    """Before a full volume that is the start: it would never grow between two full ones."""
    large = MAX_VOLUME_BYTES * 2 // 5
    assert planned(*[large] * 5, FULL_BYTES) == [[1, 2], [3, 4]]


def test_too_many_neighbours_are_thinned_out_where_they_are_smallest() -> None:
    sizes = [20_000] * (MOST_PARTIAL + 1)
    sizes[20 : 20 + FAN] = [10_000] * FAN
    assert planned(*sizes[:-1]) == []
    assert planned(*sizes) == [list(range(20, 20 + FAN))]


def test_fewer_may_be_asked_for() -> None:
    (run,) = plan_merges(volumes(1, 2, 3, 4), most_partial=1)
    assert [volume.size for volume in run] == [1, 2, 3, 4]


def nested(*levels: tuple[int, int]) -> list[int]:
    """Volumes of a size between, before and after those of the next larger one, and so on."""
    sizes: list[int] = []
    for count, size in levels:
        sizes = [*([*sizes, size] * count), *sizes]
    return sizes


NESTED = nested((5, 250_000), (4, 3 * MB), (5, 30 * MB), (4, 330 * MB))


def test_small_volumes_between_large_ones_between_larger_ones_become_few() -> None:
    """Nowhere do neighbours reach a threshold, so that only their number gives a reason."""
    history = History([])
    history.load(volumes(*NESTED))

    assert len(NESTED) == 899
    assert len(history.volumes) <= MOST_PARTIAL
    assert history.amplification < 1


SIZES = st.one_of(
    st.integers(0, 3 * MB), st.integers(0, 400 * MB), st.integers(0, MAX_VOLUME_BYTES + MB)
)


@given(st.lists(st.one_of(st.just(GAP), *[SIZES] * 9), max_size=400))
def test_what_is_planned_can_be_merged_and_ends_in_a_few_volumes(sizes: list[int | None]) -> None:
    held = volumes(*sizes)
    while runs := list(plan_merges(held)):
        assert runs == list(plan_merges(held))
        for run in runs:
            assert 2 <= len(run) <= MOST_AT_ONCE
            assert merged(run).size <= MAX_VOLUME_BYTES
            assert not any(is_full(volume) for volume in run)
            assert all(joins(run, number) for number in range(1, len(run)))
        taken = [volume for run in runs for volume in run]
        assert len({volume.blocks for volume in taken}) == len(taken)
        rest = [volume for volume in held if volume not in taken]
        held = sorted([*rest, *map(merged, runs)], key=lambda volume: volume.blocks)

    assert sum(volume.size for volume in held) == sum(filter(None, sizes))
    assert few(held)


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=150),
    st.sampled_from(SEGMENT_SIZES),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 5, 1000]),
)
def test_no_more_is_rewritten_than_four_times_what_is_loaded(
    loads: list[int], size: int, source: random.Random, disorder: int
) -> None:
    """Loads of any number of segments, in ascending order, somewhat mixed, or in none."""
    starts = [sum(loads[:number]) for number in range(len(loads))]
    arrival = {number: number + disorder * source.random() for number in range(len(loads))}
    history = History([])
    for number in sorted(arrival, key=arrival.__getitem__):
        history.load(batch(starts[number], loads[number], size))
        assert few(history.volumes)

    assert history.amplification <= AMPLIFICATION


@pytest.mark.parametrize("order", [name for name, _ in orders(1)])
@pytest.mark.parametrize("size", SEGMENT_SIZES)
@pytest.mark.parametrize("segments", [1, 12, 100])
def test_histories_of_all_kinds_are_rewritten_little(order: str, size: int, segments: int) -> None:
    """Each of 600 loads; what `tests.benchmarks.merge_simulation` prints for 75,000 segments."""
    numbers = dict(orders(600))[order]
    history = simulate(numbers, segments, size)

    assert few(history.volumes)
    assert history.amplification <= AMPLIFICATION
    if order not in ("at random", "by eight workers"):  # those have many gaps meanwhile
        assert history.most_partial <= 2 * MOST_PARTIAL


def test_a_long_history_in_ascending_order_has_a_few_dozen_volumes_that_are_not_full() -> None:
    """After each commit; the smallest segments, one by one, are rewritten most."""
    history = simulate(range(SEGMENTS), 1, SEGMENT_SIZES[0])

    assert history.most_partial <= 40
    assert 3 < history.amplification <= AMPLIFICATION
    assert sum(is_full(volume) for volume in history.volumes) == 5


@pytest.mark.parametrize("count", [2_000, SEGMENTS])
def test_volumes_that_nobody_merged_become_few_in_three_rounds(count: int) -> None:
    history = History([])
    history.load(volumes(*[SEGMENT_SIZES[0]] * count))

    assert history.rounds <= 3
    assert history.amplification <= 3
    assert history.partial <= FAN


def lines_run(sizes: Sequence[int]) -> int:
    """How many lines of the planner are executed to plan once."""
    held = volumes(*sizes)
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != merge_plan.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        list(plan_merges(held))
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "sizes", [[SEGMENT_SIZES[0]] * 500, [3 * FULL_BYTES // 4, MB], [1] * 500, NESTED[:500]]
)
def test_planning_takes_time_in_proportion_to_the_number_of_volumes(sizes: list[int]) -> None:
    assert lines_run(sizes * 8) < 16 * lines_run(sizes)
