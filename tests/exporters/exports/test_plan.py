from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.exports.plan import (
    ExportPlan,
    HeldColumns,
    InvalidExportError,
    NotHeldError,
    export_range,
    plan_export,
)
from tests.cases import each_of
from transforms.block_range import BlockRange
from transforms.errors import RangeError
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import HISTORY_TABLES, Column, TableSchema

ID = Column("id", "bytea")
SIZE = Column("size", "bigint")
# What a letter stands for in the histories below: the columns of `orders` in one segment.
SCHEMAS = {
    "a": (ID,),
    "b": (ID, SIZE),
    "c": (SIZE, ID),
    "d": (ID, Column("size", "hugeint")),
}

Segment = tuple[SegmentName, TableSchema | None]


def held(*ends: tuple[int, int], schemas: str = "", versions: str = "") -> list[Segment]:
    """Segments with these ends; one letter and one digit for each, by default all the same."""
    letters, digits = schemas or "a" * len(ends), versions or "1" * len(ends)
    return [
        (
            SegmentName("chain", int(digit), BlockRange(*span)),
            TableSchema("orders", SCHEMAS[letter]),
        )
        for span, letter, digit in zip(ends, letters, digits, strict=True)
    ]


def planned(segments: Iterable[Segment], table: str, blocks: BlockRange) -> ExportPlan:
    return plan_export(HeldColumns.of(segments), table, blocks)


# An upgrade cut the third segment short; after it come segments of 300, then a gap.
HELD = held((1, 1000), (1001, 2000), (2001, 2500), (2501, 2800), (2801, 3100), (5001, 6000))

HISTORIES = [
    ("one schema", "aaa", "111", [(1, 3)]),
    ("a new version that leaves the table alone", "aaa", "123", [(1, 3)]),
    ("a column added", "abb", "122", [(1, 1), (2, 2)]),
    ("a column added without a new version", "aab", "111", [(1, 2), (1, 1)]),
    ("columns reordered", "bcc", "111", [(1, 1), (1, 2)]),
    ("a column retyped", "bdd", "122", [(1, 1), (2, 2)]),
    ("a column that comes and goes", "aba", "123", [(1, 1), (2, 1), (3, 1)]),
    ("the member has the version of its first segment", "abb", "123", [(1, 1), (2, 2)]),
]


@pytest.mark.parametrize(
    ("schemas", "versions", "spans"),
    [case[1:] for case in HISTORIES],
    ids=[case[0] for case in HISTORIES],
)
def test_a_csv_splits_exactly_where_the_tables_own_columns_change(
    schemas: str, versions: str, spans: list[tuple[int, int]]
) -> None:
    segments = held((1, 1000), (1001, 2000), (2001, 2500), schemas=schemas, versions=versions)
    plan = planned(segments, "orders", BlockRange(1, 2500))
    assert [(span.version, len(span.segments)) for span in plan.spans] == spans


@each_of("ends", [(1, 1000), (1, 3100), (1001, 2500), (2501, 2800), (5001, 6000)])
def test_every_aligned_range_without_a_gap_has_a_plan(ends: tuple[int, int]) -> None:
    plan = planned(reversed(HELD), "orders", BlockRange(*ends))
    assert (plan.chain_id, plan.table, plan.blocks) == ("chain", "orders", BlockRange(*ends))
    (span,) = plan.spans
    assert span.blocks == BlockRange(*ends)


@given(
    lengths=st.lists(st.integers(1, 1000), min_size=1, max_size=12),
    data=st.data(),
)
def test_spans_join_and_fill_the_range(lengths: list[int], data: st.DataObject) -> None:
    edges = [1]
    for length in lengths:
        edges.append(edges[-1] + length)
    letters = data.draw(st.text("abcd", min_size=len(lengths), max_size=len(lengths)))
    segments = held(*((a, b - 1) for a, b in pairwise(edges)), schemas=letters)
    first = data.draw(st.integers(0, len(lengths) - 1))
    last = data.draw(st.integers(first, len(lengths) - 1))
    blocks = BlockRange(edges[first], edges[last + 1] - 1)
    spans = planned(segments, "orders", blocks).spans
    taken = [segment for span in spans for segment in span.segments]
    assert taken == [name.blocks for name, _ in segments[first : last + 1]]
    assert all(a.schema != b.schema for a, b in pairwise(spans))


INVALID = [
    ((2, 1000), "block 2 is not the first block of a segment; the nearest are 1 and 1001"),
    ((1500, 2500), "block 1500 is not the first block of a segment; the nearest are 1001 and 2001"),
    ((1, 999), "block 999 is not the last block of a segment; the nearest is 1000"),
    ((2001, 3000), "block 3000 is not the last block of a segment; the nearest are 2800 and 3100"),
    ((5002, 6000), "the nearest is 5001"),
    ((2501, 5999), "block 5999 is not the last block of a segment; the nearest are 3100 and 6000"),
    (
        (1002, 2001),
        "block 1002 is not the first block of a segment; the nearest are 1001 and 2001. "
        "block 2001 is not the last block of a segment; the nearest are 2000 and 2500",
    ),
    ((3, 9000), "block 3 is not the first"),  # an end off the boundaries outweighs missing blocks
]


@each_of(("ends", "message"), INVALID)
def test_an_end_inside_a_segment_is_invalid_and_the_nearest_boundaries_are_named(
    ends: tuple[int, int], message: str
) -> None:
    with pytest.raises(InvalidExportError) as caught:
        planned(HELD, "orders", BlockRange(*ends))
    assert message in str(caught.value)


MISSING = [
    ((1, 6000), "no segment holds 3101-5000; the warehouse holds 1-3100, 5001-6000"),
    ((5001, 9000), "no segment holds 6001-9000"),
    ((0, 1000), "no segment holds 0-0"),
    ((3101, 5000), "no segment holds 3101-5000"),
    ((3200, 6000), "no segment holds 3200-5000"),
    ((9001, 2**63 - 1), "no segment holds 9001-9223372036854775807"),
    ((0, 9000), "no segment holds 0-0, 3101-5000, 6001-9000"),
]


@each_of(("ends", "message"), MISSING)
def test_blocks_that_no_segment_holds_are_named(ends: tuple[int, int], message: str) -> None:
    with pytest.raises(NotHeldError) as caught:
        planned(HELD, "orders", BlockRange(*ends))
    assert message in str(caught.value)


def test_an_empty_archive_holds_nothing_yet() -> None:
    with pytest.raises(
        NotHeldError, match="no segment holds 1-1000; the warehouse holds nothing yet"
    ):
        planned([], "orders", BlockRange(1, 1000))


def test_a_long_list_of_gaps_is_cut_and_counted() -> None:
    islands = held(*((at * 10, at * 10) for at in range(1, 21)))
    with pytest.raises(NotHeldError, match="51-59 and 14 more; the warehouse") as caught:
        planned(islands, "orders", BlockRange(10, 200))
    assert len(str(caught.value)) < 300


def test_a_segment_without_the_table_is_named() -> None:
    first, second = held((1, 1000), (1001, 2000))
    with pytest.raises(
        NotHeldError, match=r"orders over blocks .*: segment 1001-2000 has no such table"
    ):
        planned([first, (second[0], None)], "orders", BlockRange(1, 2000))


@each_of("table", ["", "order", "ORDERS", "assets"])
def test_an_unknown_table_is_invalid_and_the_fifteen_are_listed(table: str) -> None:
    with pytest.raises(InvalidExportError) as caught:
        planned(HELD, table, BlockRange(1, 1000))
    assert all(name in str(caught.value) for name in HISTORY_TABLES)


def test_a_range_is_read_from_two_heights() -> None:
    assert export_range(1, 1000) == BlockRange(1, 1000)
    assert export_range(7, 7) == BlockRange(7, 7)


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (2000, 1001, "starts at block 2000, after its end, block 1001"),
        (-5, 1000, "block -5 is negative"),
        (1, -1, "block -1 is negative"),
    ],
)
def test_a_range_that_runs_backwards_or_below_zero_is_invalid(
    first: int, last: int, message: str
) -> None:
    with pytest.raises(InvalidExportError, match=message):
        export_range(first, last)


def test_both_kinds_of_refusal_are_range_errors() -> None:
    assert issubclass(InvalidExportError, RangeError)
    assert issubclass(NotHeldError, RangeError)
    assert not issubclass(NotHeldError, InvalidExportError)


def test_seventy_five_thousand_segments_are_planned_in_seconds() -> None:
    segments = held(*((at * 300 + 1, at * 300 + 300) for at in range(75_000)))
    started = time.perf_counter()
    plan = planned(segments, "orders", BlockRange(1, 75_000 * 300))
    assert len(plan.spans[0].segments) == 75_000
    assert time.perf_counter() - started < 5
