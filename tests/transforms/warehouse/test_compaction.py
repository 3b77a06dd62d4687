"""Merging volumes: which, and that nobody can tell afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.zips.staging import PartStage
from tests.segments_kit import build_segment, table_rows
from tests.transforms.warehouse_kit import blocks_of, exact_tables
from transforms.blocks import BlockRange
from transforms.objects import StoredFile
from transforms.segments.source import Source
from transforms.stores.folder import FolderStore
from transforms.warehouse.compaction import FAN, MAX_VOLUME_BYTES, plan_merges, tier
from transforms.warehouse.opening import open_warehouse
from transforms.warehouse.shapes import Volume
from transforms.warehouse.warehouse import Warehouse

MB = 2**20
WHOLE = "000000001-000000300"
BOUNDS = ((1, 1, 100), (1, 101, 130), (2, 131, 200), (6, 201, 201), (6, 202, 300))


def volumes(
    *sizes: int, gap_before: int | None = None, is_sorted: bool = True
) -> tuple[list[Volume], dict[str, int]]:
    """Neighbouring volumes of these sizes; a gap lies before one of them."""
    made: list[Volume] = []
    for number in range(len(sizes)):
        shift = 5 if gap_before is not None and number >= gap_before else 0
        blocks = BlockRange(number * 10 + 1 + shift, number * 10 + 10 + shift)
        file = StoredFile(f"{number}.duckdb", sizes[number], "")
        made.append(Volume("history", file, blocks, 1, {}, is_sorted=is_sorted))
    return made, {volume.key: size for volume, size in zip(made, sizes, strict=True)}


def planned(made: list[Volume], sizes: dict[str, int]) -> list[str]:
    return [
        " ".join(volume.key.partition(".")[0] for volume in run)
        for run in plan_merges(made, lambda volume: sizes[volume.key])
    ]


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 0), (MB, 0), (MB + 1, 1), (8 * MB, 1), (8 * MB + 1, 2)]
)
def test_a_tier_is_eight_times_as_large_as_the_one_below(size: int, expected: int) -> None:
    assert tier(size) == expected


def test_seven_neighbours_are_left_alone_and_eight_are_merged() -> None:
    assert planned(*volumes(*[MB] * (FAN - 1))) == []
    assert planned(*volumes(*[MB] * FAN)) == ["0 1 2 3 4 5 6 7"]


def test_small_neighbours_merge_without_the_large_one_beside_them() -> None:
    assert planned(*volumes(500 * MB, *[MB] * FAN)) == ["1 2 3 4 5 6 7 8"]


def test_volumes_on_both_sides_of_a_gap_stay_apart() -> None:
    assert planned(*volumes(*[MB] * FAN, gap_before=4)) == []


def test_a_volume_of_the_largest_size_is_not_merged_again() -> None:
    assert planned(*volumes(*[MAX_VOLUME_BYTES] * FAN)) == []


def test_a_large_volume_is_sorted_as_a_whole_once_nothing_is_to_be_merged() -> None:
    sizes = [16 * MB, 16 * MB + 1, MB]
    assert planned(*volumes(*sizes, is_sorted=False)) == ["1"]
    assert planned(*volumes(*sizes)) == []
    assert planned(*volumes(17 * MB, *[MB] * FAN, is_sorted=False)) == ["1 2 3 4 5 6 7 8"]


@given(st.lists(st.integers(1, MB), min_size=1, max_size=300))
def test_any_number_of_volumes_ends_in_a_few(loads: list[int]) -> None:
    """Loading one volume after another and merging after each keeps fewer than FAN in a tier."""
    sizes: list[int] = []
    for size in loads:
        sizes.append(size)
        while runs := planned(*volumes(*sizes)):
            for run in reversed(runs):
                numbers = [int(number) for number in run.split()]
                merged = sum(sizes[number] for number in numbers)
                sizes[numbers[0] : numbers[-1] + 1] = [merged]

    assert len(sizes) <= (FAN - 1) * (tier(sum(loads)) + 1)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source of three schema versions and a warehouse of a volume for each segment.

    Its tests work on copies: loading one segment after another takes longer than most of them.
    """
    folder = tmp_path_factory.mktemp("template")
    tables = ("orders", "trades", "withdrawals")
    hostile = {"orders": {"reference": 'a,"b"\r\n#'}, "withdrawals": {"amount": "1" * 60}}
    for version, first, last in BOUNDS:
        build_segment(
            folder / "source",
            version=version,
            first=first,
            last=last,
            tables={
                table: table_rows(
                    table, hostile.get(table, {}), {}, {}, version=version, first=first
                )
                for table in tables
            },
        )
    warehouse, source = open_warehouse(folder / "warehouse"), Source(FolderStore(folder / "source"))
    stage = PartStage(folder / "parts", durable=False)
    for file in warehouse.survey(source).pending:
        assert warehouse.load(source, [file], stage).failures == []
    return folder


@pytest.fixture
def loaded(template: Path, tmp_path: Path) -> tuple[Warehouse, list[Path]]:
    """A copy of the template to change at will, and its segments, ascending."""
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    warehouse = open_warehouse(tmp_path / "warehouse")
    with warehouse.connect():  # the views name files by path: they are written anew
        return warehouse, sorted((tmp_path / "source").glob("*.zip"), key=blocks_of)


def history(warehouse: Warehouse) -> list[str]:
    catalog = warehouse.catalog()
    assert catalog is not None
    return [volume.key for volume in catalog.history()]


def test_a_merged_volume_renders_every_table_to_the_source_bytes(
    loaded: tuple[Warehouse, list[Path]],
) -> None:
    warehouse, segments = loaded
    before = warehouse.receipts()

    report = warehouse.compact(fan=2)

    assert len(history(warehouse)) == 1
    assert len(report.merged) == 1
    for segment in segments:
        assert all(exact_tables(warehouse, segment).values()), segment
    assert warehouse.receipts() == before
    assert [what for what in warehouse.verify() if what[1]] == []
    assert warehouse.compact(fan=2).merged == []


def test_merging_gives_the_volume_that_one_load_would_have_given(
    loaded: tuple[Warehouse, list[Path]], tmp_path: Path
) -> None:
    warehouse, segments = loaded
    warehouse.compact(fan=2)
    source = Source(FolderStore(segments[0].parent))
    other = open_warehouse(tmp_path / "other")
    other.load(source, other.survey(source).pending, PartStage(tmp_path / "p", durable=False))

    for opened in (warehouse, other):
        assert [key.partition(".")[0] for key in history(opened)] == ["volumes/" + WHOLE]
    one, another = (opened.loaded_catalog().history()[0] for opened in (warehouse, other))
    assert (one.blocks, one.version, one.shapes) == (
        another.blocks,
        another.version,
        another.shapes,
    )
    assert (one.is_sorted, another.is_sorted) == (True, False)
    assert warehouse.receipts() == other.receipts()


def test_a_reader_of_the_old_generation_goes_on_reading(
    loaded: tuple[Warehouse, list[Path]],
) -> None:
    warehouse, _ = loaded
    old = history(warehouse)
    with duckdb.connect(str(warehouse.current.resolve()), read_only=True) as reader:
        rows = reader.execute("select count(*) from orders").fetchall()
        warehouse.compact(fan=2)

        assert reader.execute("select count(*) from orders").fetchall() == rows
        assert all((warehouse.cache / file).exists() for file in old)


def test_old_volumes_go_after_the_grace_period(loaded: tuple[Warehouse, list[Path]]) -> None:
    warehouse, _ = loaded
    old = history(warehouse)
    for file in old:
        os.utime(warehouse.cache / file, (0, 0))  # written long ago, dropped only now
    warehouse.compact(fan=2)
    assert all((warehouse.cache / file).exists() for file in old)

    warehouse.sweep(grace_seconds=0)

    assert not any((warehouse.cache / file).exists() for file in old)
    assert all((warehouse.cache / file).exists() for file in history(warehouse))


_COMPACT = """
import sys
from pathlib import Path
import transforms.warehouse.compaction as compaction
from transforms.warehouse.opening import open_warehouse
from transforms.warehouse.volumes import LoadSettings
import os, signal

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(compaction, sys.argv[2], die)
compaction.compact(open_warehouse(sys.argv[1]).backing, LoadSettings(), 2)
"""


@pytest.mark.parametrize("step", ["_merge", "store_history", "_replace", "volume_digests"])
def test_a_killed_compaction_changes_nothing_and_the_next_one_ends_it(
    loaded: tuple[Warehouse, list[Path]], step: str
) -> None:
    warehouse, segments = loaded
    old = history(warehouse)
    killed = subprocess.run(
        [sys.executable, "-c", _COMPACT, str(warehouse.cache), step], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert history(warehouse) == old
    assert all(exact_tables(warehouse, segments[0]).values())

    warehouse.compact(fan=2)

    assert len(history(warehouse)) == 1
    assert list((warehouse.cache / "scratch").glob("run-*")) == []
    assert all(exact_tables(warehouse, segments[-1]).values())
    assert blocks_of(segments[0]) in {receipt.blocks for receipt in warehouse.receipts()}
