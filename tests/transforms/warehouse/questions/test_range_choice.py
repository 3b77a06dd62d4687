"""Ranges of times and heights snap outwards to loaded segments, over several volumes and a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.segments_kit import block_time, columns
from tests.transforms.warehouse_kit import history_segment, load_folder
from transforms.bounds import both_bounds
from transforms.errors import ConfigError, RangeError
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.questions import range_choice
from transforms.warehouse.questions.range_choice import choose_range, segment_times
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Blocks 1-10 and 11-20 in a volume, 31-40 in another."""
    folder = tmp_path_factory.mktemp("choice")
    for number, spans in enumerate(([(1, 10), (11, 20)], [(31, 40)])):
        source = folder / f"source{number}"
        source.mkdir()
        for first, last in spans:
            history_segment(source, first=first, last=last)
        assert load_folder(folder / "warehouse", source).failures == []
    warehouse = open_warehouse(folder / "warehouse")
    assert len(warehouse.loaded_catalog().snapshot.history) == 2
    return warehouse


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, "1-40"),
        ("1", "1", "1-10"),
        ("5", "15", "1-20"),
        ("10", "11", "1-20"),
        ("11", None, "11-40"),
        (None, "20", "1-20"),
        ("25", "35", "31-40"),  # the gap is not snapped over
        ("15", "25", "11-20"),
        ("15", "99", "11-40"),
        (block_time(5), block_time(5), "1-10"),
        (block_time(10), block_time(11), "1-20"),
        (block_time(10, 1), block_time(11), "11-20"),  # after block 10
        (block_time(10), block_time(10, 999_999), "1-10"),
        (block_time(20, 1), None, "31-40"),
        (None, block_time(30), "1-20"),
        ("2023-01-01", "2023-01-01", "1-40"),
        ("2022-01-01", "2024-01-01", "1-40"),
        (block_time(12), "35", "11-40"),
        ("12", block_time(35), "11-40"),
    ],
)
def test_a_range_takes_the_segments_that_it_touches(
    warehouse: Warehouse, start: str | None, end: str | None, expected: str
) -> None:
    assert (
        str(choose_range(warehouse.loaded_catalog(), *both_bounds(start, end)).blocks) == expected
    )


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("41", None),
        (None, "0"),
        ("22", "28"),
        ("2023-01-02", None),
        (None, "2022-12-31"),
        (block_time(20, 1), block_time(30)),
    ],
)
def test_where_nothing_lies_between_the_error_says_what_is_held(
    warehouse: Warehouse, start: str | None, end: str | None
) -> None:
    with pytest.raises(RangeError, match=r"the warehouse holds blocks 1-40 \(3 segments\), 2023"):
        choose_range(warehouse.loaded_catalog(), *both_bounds(start, end))


@pytest.mark.parametrize(("start", "end"), [("5", "4"), (block_time(5), block_time(4))])
def test_an_end_before_the_beginning_is_refused(warehouse: Warehouse, start: str, end: str) -> None:
    with pytest.raises(RangeError, match="give the first one first"):
        choose_range(warehouse.loaded_catalog(), *both_bounds(start, end))


def test_only_the_volumes_at_the_ends_are_opened(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    times = range_choice.segment_times

    def noted(catalog: Catalog, volume: Volume) -> object:
        opened.append(str(volume.blocks))
        return times(catalog, volume)

    monkeypatch.setattr(range_choice, "segment_times", noted)
    choose_range(warehouse.loaded_catalog(), *both_bounds(block_time(12), block_time(15)))
    assert set(opened) == {"1-20"}


def test_every_segment_has_its_times(warehouse: Warehouse) -> None:
    catalog = warehouse.loaded_catalog()
    times = [
        times for volume in catalog.snapshot.history for times in segment_times(catalog, volume)
    ]
    assert [block for block, _, _ in times] == [blocks.first for blocks in catalog.blocks]
    assert [last - first for _, first, last in times] == [9 * 10**6] * 3


def test_where_a_segment_has_no_times_that_a_type_holds_heights_do(tmp_path: Path) -> None:
    times = {height: f"0044-03-{height:02} 12:00:00+00 BC" for height in range(1, 11)}
    rows = [(time, str(height), "\\x00") for height, time in times.items()]
    tables = {"blocks": (columns("blocks"), rows)}
    history_segment(tmp_path / "source", first=1, last=10, tables=tables)
    assert load_folder(tmp_path / "warehouse", tmp_path / "source").failures == []
    warehouse = open_warehouse(tmp_path / "warehouse")
    choice = choose_range(warehouse.loaded_catalog(), *both_bounds("3", "4"))
    assert str(choice) == "blocks 1-10 (1 segment)"
    with pytest.raises(RangeError, match="no segment lies from 2023-01-01"):
        choose_range(warehouse.loaded_catalog(), *both_bounds("2023-01-01", None))


def test_where_nothing_is_loaded_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="load"):
        choose_range(
            open_warehouse(tmp_path / "warehouse").loaded_catalog(), *both_bounds(None, None)
        )
