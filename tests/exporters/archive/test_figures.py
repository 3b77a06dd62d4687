"""Sizes and coverage as people read them."""

from __future__ import annotations

from exporters.archive.figures import coverage_bar, size_text, times_text
from tests.cases import each_of
from transforms.block_range import BlockRange

AXIS = BlockRange(1, 10_000)


@each_of(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (1_550_000, "1.6 MB"),
        (2_000_000_000, "2.0 GB"),
        (3_000_000_000_000_000, "3000.0 TB"),
    ],
)
def test_sizes_are_written_in_units_of_a_thousand(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_are_written_to_the_second() -> None:
    first, last = "2023-06-01T12:00:01Z", "2023-06-01T12:00:09.123456Z"
    assert times_text((first, last)) == "2023-06-01 12:00:01 to 2023-06-01 12:00:09"


@each_of(
    ("kind", "runs", "drawn"),
    [
        ("held", [(1, 10_000)], [(0, 1000)]),
        ("held", [(1, 9_999)], [(0, 999)]),
        ("held", [(1, 5_000), (7_501, 10_000)], [(0, 500), (750, 250)]),
        ("held", [(5_001, 5_001)], [(500, 1)]),
        ("gap", [(5_001, 5_001)], [(500, 3)]),
        ("gap", [(5_001, 5_001), (5_021, 5_021)], [(500, 5)]),
        ("held", [(1, 4), (6, 9), (9_991, 10_000)], [(0, 1), (999, 1)]),
        ("held", [], []),
    ],
)
def test_runs_are_drawn_in_thousandths_never_too_thin_to_see_and_joined_where_they_touch(
    kind: str, runs: list[tuple[int, int]], drawn: list[tuple[int, int]]
) -> None:
    covered = tuple(BlockRange(first, last) for first, last in runs)
    assert coverage_bar(AXIS, {kind: covered}) == [(kind, *piece) for piece in drawn]
