"""Zone maps: every row with a value is among those that are named, and few others are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.duck import Connection
from transforms.lookups.zone_maps import ROW_BLOCK, ZoneMap, zone_map_sql

# A few values make rows that tie over many row blocks; each one fills this many rows.
_RUNS = st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(1, 3000)), max_size=8)


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        yield con


def _zone_map(con: Connection, values: Sequence[int | None]) -> ZoneMap:
    """The zone map of rows with these keys, as texts of one length."""
    con.execute("create or replace table t (v varchar)")
    con.execute(
        "insert into t select unnest($1::varchar[])",
        [[None if value is None else _text(value) for value in values]],
    )
    return ZoneMap.of([row[1:] for row in con.execute(zone_map_sql("t", "v")).fetchall()])


def _text(value: int) -> str:
    return f"{value:09}"


def _filled(runs: list[tuple[int | None, int]]) -> list[int | None]:
    return [value for value, count in runs for _ in range(count)]


@given(runs=_RUNS, wanted=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_every_row_with_a_value_is_in_one_of_its_ranges(
    con: Connection, runs: list[tuple[int | None, int]], wanted: int
) -> None:
    values = _filled(runs)
    ranges = [*_zone_map(con, values).ranges(_text(wanted))]
    assert ranges == sorted(ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))
    for number, value in enumerate(values):
        if value == wanted:
            assert any(first <= number <= last for first, last in ranges)


def test_of_a_large_sorted_table_a_stretch_or_two_are_left(con: Connection) -> None:
    zones = _zone_map(con, [*range(100 * ROW_BLOCK)])
    for value in (0, ROW_BLOCK - 1, ROW_BLOCK, 70_000, 100 * ROW_BLOCK - 1):
        ((first, last),) = zones.ranges(_text(value))
        assert last - first == ROW_BLOCK - 1
    assert [*zones.ranges(_text(100 * ROW_BLOCK))] == []


def test_rows_that_are_sorted_by_parts_have_a_range_in_each(con: Connection) -> None:
    values = [*range(5000), *range(5000)]
    zones = _zone_map(con, [*values])
    assert len([*zones.ranges(_text(1))]) == 2
    assert [*_zone_map(con, [None] * 3000).ranges(_text(1))] == []
