"""Merging volumes: that nobody can tell afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from exporters.zips.staging import PartStage
from tests.segments_kit import build_segment, columns, table_rows
from tests.transforms.warehouse_kit import blocks_of, exact_tables, load_folder, query, verify
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES, known_tables
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

WHOLE = "000000001-000000300"
BOUNDS = ((1, 1, 100), (1, 101, 130), (2, 131, 200), (6, 201, 201), (6, 202, 300))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source of three schema versions and a warehouse of a volume for each segment.

    Its tests work on copies: loading one segment after another takes longer than most of them.
    Of the current state, which is not merged, each segment has one table.
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
            omit={*known_tables(version)} - {*HISTORY_TABLES, "parties"},
            tables={
                table: table_rows(
                    table, hostile.get(table, {}), {}, {}, version=version, first=first
                )
                for table in tables
            },
        )
    warehouse, source = open_warehouse(folder / "warehouse"), Source(FolderStore(folder / "source"))
    stage = PartStage(folder / "parts")
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
    return [volume.key for volume in catalog.snapshot.history]


def test_a_merged_volume_renders_every_table_to_the_source_bytes(
    loaded: tuple[Warehouse, list[Path]],
) -> None:
    warehouse, segments = loaded
    before = warehouse.receipts()

    merged = warehouse.compact(most_partial=1)

    assert len(history(warehouse)) == 1
    assert len(merged) == 1
    for segment in segments:
        assert all(exact_tables(warehouse, segment).values()), segment
    assert warehouse.receipts() == before
    assert list(verify(warehouse)) == []
    assert warehouse.compact(most_partial=1) == []


def test_merging_gives_the_volume_that_one_load_would_have_given(
    loaded: tuple[Warehouse, list[Path]], tmp_path: Path
) -> None:
    warehouse, segments = loaded
    warehouse.compact(most_partial=1)
    source = Source(FolderStore(segments[0].parent))
    other = open_warehouse(tmp_path / "other")
    other.load(source, other.survey(source).pending, PartStage(tmp_path / "p"))

    for opened in (warehouse, other):
        assert [key.partition(".")[0] for key in history(opened)] == ["manifests/" + WHOLE]
    one, another = (opened.loaded_catalog().snapshot.history[0] for opened in (warehouse, other))
    assert (one.blocks, one.version, one.shapes) == (
        another.blocks,
        another.version,
        another.shapes,
    )
    assert warehouse.receipts() == other.receipts()


def test_columns_of_segments_without_rows_are_merged_with_rows_that_lack_them(
    tmp_path: Path,
) -> None:
    build_segment(tmp_path / "s", last=10, tables={"orders": table_rows("orders", {})})
    load_folder(tmp_path / "w", tmp_path / "s")
    later = {"orders": ((*columns("orders"), "novelty"), ())}
    segment = build_segment(tmp_path / "s", first=11, last=20, tables=later)
    load_folder(tmp_path / "w", tmp_path / "s")
    warehouse = open_warehouse(tmp_path / "w")
    assert len(warehouse.compact(most_partial=1)) == 1
    assert all(exact_tables(warehouse, segment).values())
    assert query(warehouse, "select id, novelty from orders") == [("00", None)]
    assert list(verify(warehouse)) == []


def test_a_reader_of_the_old_snapshot_goes_on_reading(
    loaded: tuple[Warehouse, list[Path]],
) -> None:
    warehouse, _ = loaded
    old = history(warehouse)
    with duckdb.connect(str(warehouse.current.resolve()), read_only=True) as reader:
        rows = reader.execute("select count(*) from orders").fetchall()
        warehouse.compact(most_partial=1)

        assert reader.execute("select count(*) from orders").fetchall() == rows
        assert all((warehouse.cache / file).exists() for file in old)
