"""No file is ever skipped wrongly: readers answer any filter like a scan of every row.

Statistics of the Parquet files let readers pass over rows. So the rows lie in many
small ones, and filters are drawn from the values and what lies just beside them: a unit, a
microsecond, what 64 bits, floats or milliseconds make of them. `STRATA_TEST_FILTERS` says how many
filters each of the four readers is asked: 60, or 2,500 for ten thousand.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exporters.lake.filters_kit import (
    FILTER_READERS,
    Filter,
    Key,
    Value,
    filters,
    holds,
)
from tests.exporters.lake.lake_kit import LakeSite, history_tables, lake_site
from tests.lake_readers import shortest_double
from tests.segments_kit import build_segment, table_rows
from transforms.tables.registry import HISTORY_TABLES, known_tables

_SEGMENTS, _ROWS = 12, 8
_ASKED = int(os.environ.get("STRATA_TEST_FILTERS", "60"))
_BASE = datetime(2023, 5, 1, 10, tzinfo=UTC)
_FEE = Decimal("0.0000000000000001")
_ODD: Mapping[str, Sequence[Value]] = {
    "size": (2**63 - 1, -(2**63), 2**53 + 1, 2**53, 0, -1),
    "peak_size": (2**63 - 1, 0),
    "price": tuple(
        map(Decimal, (10**38 - 1, -(10**38) + 1, 2**64, 2**63, 10**20, 10**20 + 1, 2**53 + 1, 0))
    ),
    "fee": tuple(
        map(
            Decimal,
            (
                *("0.3000000000000000", "9999999999999999999999.9999999999999999"),
                *("-1.5000000000000001", "922337203685477.5808000000000000", "0.0000000000000001"),
            ),
        )
    ),
    "created_at": (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 998001, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ),
    "percent_of_total": (float("nan"), 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 2.0**53 + 2),
    "party_id": ("", "ff" * 40),
    "reference": ("", "it's", "ünï \U0001f600", "z" * 300),
}


def _value(column: str, segment: int, chance: random.Random) -> Value | None:
    """Mostly a value of the segment's own range, so that most files can be skipped."""
    if column == _NEW and segment < _NEW_FROM:
        return None
    if chance.random() < (0.08 if segment % 6 else 0.95) and column not in ("vega_time", "side"):
        return None
    if chance.random() < 0.08 and column in _ODD:
        return chance.choice(_ODD[column])
    near = segment * 10 + chance.randrange(12)
    values: dict[str, Value] = {
        "vega_time": _BASE + timedelta(seconds=segment, microseconds=chance.randrange(10**6)),
        "created_at": _BASE + timedelta(milliseconds=near, microseconds=chance.choice((0, 1, 999))),
        "side": segment % 5 - 2,
        "version": near,
        "size": near - 40,
        "peak_size": near,
        "price": near * 10**19 + Decimal(chance.randrange(3)),
        "fee": near + _FEE * chance.randrange(3),
        "percent_of_total": near / 7,
        "party_id": f"{near:04x}" * 8,
        "reference": f"no {near}",
        "post_only": chance.random() < 0.5,
    }
    return values[column]


# A column that the first half of the segments does not have yet.
_NEW, _NEW_FROM = "peak_size", _SEGMENTS // 2
_FILTERED = {
    "orders": ("vega_time", "created_at", "side", "size", "peak_size", "price", "party_id"),
    "liquidity_provisions": ("created_at", "fee", "reference", "version"),
    "rewards": ("vega_time", "percent_of_total"),
}


def _text(column: str, value: Value | None) -> str | None:
    """As PostgreSQL prints it."""
    if value is None:
        return None
    if isinstance(value, datetime):
        fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
        return f"{value.replace(microsecond=0).isoformat(' ')[:19]}{fraction}+00"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return shortest_double(value)
    if isinstance(value, Decimal):
        return f"{value:.16f}" if column == "fee" else f"{value:f}"
    return f"\\x{value}" if column == "party_id" else str(value)


def _rows(table: str, segment: int) -> list[dict[str, Value | None]]:
    chance = random.Random(f"{table} {segment}")
    return [
        {column: _value(column, segment, chance) for column in _FILTERED[table]}
        for _ in range(_ROWS)
    ]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LakeSite:
    """Small segments, each in files of its own."""
    folder = tmp_path_factory.mktemp("filtered")
    for segment in range(_SEGMENTS):
        first, version = _first(segment), 6 if segment >= _NEW_FROM else 1
        tables = {}
        for table in _FILTERED:
            texts = [
                {
                    column: _text(column, value)
                    for column, value in row.items()
                    if column != _NEW or segment >= _NEW_FROM
                }
                for row in _rows(table, segment)
            ]
            tables[table] = table_rows(table, *texts, version=version, first=first)
        states = {table for table in known_tables(version) if table not in HISTORY_TABLES}
        build_segment(
            folder / "source",
            version=version,
            first=first,
            last=first + 1,
            tables=tables,
            omit=states,
        )
    made = lake_site(folder, folder / "source", batch=1)
    made.load()
    for blocks in made.site.loaded_catalog().blocks:
        publisher = history_tables(made.site, [blocks])
        assert not publisher.follow()
    return made


def _first(segment: int) -> int:
    return segment * 2 + 1


def _held(table: str) -> dict[Key, dict[str, Value | None]]:
    """Every row of a table as it was written, by its key, which can be filtered like the rest."""
    held: dict[Key, dict[str, Value | None]] = {}
    for segment in range(_SEGMENTS):
        for number, row in enumerate(_rows(table, segment), start=1):
            key = _first(segment), number
            held[key] = {**row, "_segment": key[0], "_row": key[1]}
    return held


def _scanned(held: Mapping[Key, Mapping[str, Value | None]], asked: Filter, nan: bool) -> list[Key]:
    return [key for key, row in held.items() if holds(row, asked, nan_is_greatest=nan)]


@pytest.mark.parametrize("name", FILTER_READERS)
def test_every_filter_finds_what_a_full_scan_finds(lake: LakeSite, name: str) -> None:
    held = {table: _held(table) for table in _FILTERED}
    readers = {table: FILTER_READERS[name](lake.folder / table) for table in _FILTERED}
    asked_of = st.one_of(
        *(st.tuples(st.just(table), filters([*rows.values()])) for table, rows in held.items())
    )
    found: Counter[bool] = Counter()

    @settings(max_examples=_ASKED, suppress_health_check=[HealthCheck.too_slow])
    @given(asked_of)
    def check(given_: tuple[str, Filter]) -> None:
        table, asked = given_
        reader = readers[table]
        expected = _scanned(held[table], asked, reader.nan_is_greatest)
        assert reader.keys(asked) == expected, asked
        found[bool(expected)] += 1

    check()
    print(f"{name}: {found.total()} filters, of which {found[True]} found rows")
    assert found.total() >= _ASKED
    assert found[True] > _ASKED / 4
