"""Zone maps: every row with a value is among those that are named, and few others are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transforms.duck import Connection
from transforms.lookups.zone_maps import ROW_BLOCK, ZoneMap, zone_map_sql

# A few values make rows that tie over many row blocks; each one fills this many rows.
_RUNS = st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(1, 3000)), max_size=8)


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        yield con


def _zone_map(con: Connection, values: list[int | None]) -> ZoneMap[int]:
    con.execute("create or replace table t (v integer)")
    con.execute("insert into t select unnest($1::integer[])", [values])
    return ZoneMap([row[1:] for row in con.execute(zone_map_sql("t", "v")).fetchall()])


def _filled(runs: list[tuple[int | None, int]]) -> list[int | None]:
    return [value for value, count in runs for _ in range(count)]


@given(runs=_RUNS, wanted=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_every_row_with_a_value_is_in_one_of_its_ranges(
    con: Connection, runs: list[tuple[int | None, int]], wanted: int
) -> None:
    values = _filled(runs)
    ranges = [*_zone_map(con, values).ranges(wanted)]
    assert ranges == sorted(ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))
    for number, value in enumerate(values):
        if value == wanted:
            assert any(first <= number <= last for first, last in ranges)


@example(runs=[(0, 1)], start=None, count=2, descending=False)
@example(runs=[(0, 1)], start=0, count=2, descending=True)
@given(
    runs=_RUNS,
    start=st.none() | st.integers(0, 9),
    count=st.integers(1, 5000),
    descending=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_the_next_rows_are_near(
    con: Connection,
    runs: list[tuple[int | None, int]],
    start: int | None,
    count: int,
    descending: bool,
) -> None:
    values = sorted(value for value in _filled(runs) if value is not None)
    zones = _zone_map(con, [*values])
    near = zones.near(start, count, descending=descending)
    if near is None:
        assert not values
        return
    numbers = [
        number
        for number, value in enumerate(values)
        if start is None or (value <= start if descending else value >= start)
    ]
    wanted = numbers[::-1][:count] if descending else numbers[:count]
    found = [number for number in numbers if near[0] <= number <= near[1]]
    assert {*wanted} <= {*found}
    assert len(found) >= count or zones.reaches_end(near, descending=descending)


def test_of_a_large_sorted_table_a_stretch_or_two_are_left(con: Connection) -> None:
    zones = _zone_map(con, [*range(100 * ROW_BLOCK)])
    for value in (0, ROW_BLOCK - 1, ROW_BLOCK, 70_000, 100 * ROW_BLOCK - 1):
        ((first, last),) = zones.ranges(value)
        assert last - first == ROW_BLOCK - 1
    for descending in (False, True):
        near = zones.near(70_000, 20, descending=descending)
        assert near is not None
        assert near[1] - near[0] < 3 * ROW_BLOCK
    assert [*zones.ranges(100 * ROW_BLOCK)] == []


def test_rows_in_no_order_have_ranges_and_nothing_is_near(con: Connection) -> None:
    values = [*range(5000), *range(5000)]
    zones = _zone_map(con, [*values])
    assert len([*zones.ranges(1)]) == 2
    assert zones.near(1, 1, descending=False) is None
    assert _zone_map(con, [None] * 10).near(1, 1, descending=True) is None
    assert [*_zone_map(con, [None] * 3000).ranges(1)] == []
