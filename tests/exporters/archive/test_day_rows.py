"""Rows per day: each row counts once, and many days make a page that still loads."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.block_days import BlockDay, day_rows
from exporters.publishing.publication import publish_zips
from tests.archive_kit import CHAIN, part_request, segment_requests
from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES

FIRST = date(2023, 1, 1)


def days_with(*rows: int) -> list[BlockDay]:
    """Days in a row that have so many orders."""
    return [
        BlockDay(FIRST + timedelta(days=n), BlockRange(n, n), (("orders", count),) if count else ())
        for n, count in enumerate(rows)
    ]


def test_each_row_counts_once_on_the_day_on_which_its_segment_begins(tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 80_000, rows=3))
    publish_zips(archive, segment_requests(tmp_path, 80_001, 90_000, rows=5))
    publish_zips(archive, segment_requests(tmp_path, 90_001, 95_000, rows=7))
    publish_zips(archive, [part_request(tmp_path, "orders", 95_001, 96_000, rows=9)])
    index = archive.index()
    # Of the orders at the end nobody knows the day: no ZIP of blocks says it.
    each = dict.fromkeys(HISTORY_TABLES, 8), dict.fromkeys(HISTORY_TABLES, 7)
    assert [Counter(dict(item.rows)) for item in index.days] == list(map(Counter, each))
    assert {table: chart.most for table, chart in day_rows(index.days).items()} == each[0]


def test_a_bar_is_as_high_as_its_rows_and_few_can_be_seen_beside_many() -> None:
    chart = day_rows(days_with(50, 0, 1000, 1))["orders"]
    assert (chart.most, chart.width) == (1000, 4)
    bars = re.findall(r"M(\d+) 100v-(\d+)h1V100", chart.path)
    assert bars == [("0", "5"), ("2", "100"), ("3", "3")]


def test_many_days_share_a_bar() -> None:
    chart = day_rows(days_with(*range(1, 1001)))["orders"]
    assert chart.width == 200
    assert chart.most == 1000
    assert chart.path.count("M") == 200


def test_without_days_or_rows_there_is_no_chart() -> None:
    assert day_rows([]) == {}
    assert day_rows(days_with(0, 0)) == {}
