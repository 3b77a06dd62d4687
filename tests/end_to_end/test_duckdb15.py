"""DuckDB 1.5, as people have it, opens what is written, and gives the answers of DuckDB 2.0."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from pipelines.sample_history import copy_sample
from tests.duckdb15_kit import answers, asked_15
from tests.transforms.warehouse_kit import MemorySink, exact_tables, load_folder, relist
from transforms.block_range import BlockRange
from transforms.duck import attached, working_connection
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.questions.warehouse_copy import write_copy
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample history, with a spam capture."""
    folder = tmp_path_factory.mktemp("sample")
    copy_sample(folder)
    (folder / "spam").mkdir()
    spoken = {"partyId": "ab" * 32, "chainId": "sample-chain-001", "statistics": {"epochSeq": "1"}}
    place = folder / "spam" / "sample-chain-001-1000.ndjson"
    place.write_text(f"{json.dumps(spoken)}\nno capture\n")
    return folder


@pytest.fixture(scope="module")
def loaded(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The sample in one volume."""
    warehouse = open_warehouse(tmp_path_factory.mktemp("loaded") / "warehouse")
    assert load_folder(warehouse.cache, source).failures == []
    return _with_captures(warehouse, source)


@pytest.fixture(scope="module")
def merged(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The same, loaded into two volumes, which then were merged."""
    warehouse = open_warehouse(tmp_path_factory.mktemp("merged") / "warehouse")
    files = warehouse.survey(Source(FolderStore(source))).pending
    for some in (files[:4], files[4:]):
        assert warehouse.load(Source(FolderStore(source)), some, MemorySink()).failures == []
    warehouse.compact(most_partial=1)
    assert len(warehouse.loaded_catalog().history()) == 1
    return _with_captures(warehouse, source)


def _with_captures(warehouse: Warehouse, source: Path) -> Warehouse:
    report = warehouse.load_captures(Source(FolderStore(source)))
    assert (report.captures, report.refused) == (1, 1)
    return warehouse


@pytest.fixture(scope="module")
def here(loaded: Warehouse, merged: Warehouse) -> Mapping[Path, Mapping[str, object]]:
    """What the views of each answer in 2.0."""
    return {w.current: answers(w.current, of_15=False) for w in (loaded, merged)}


def test_every_view_answers_in_1_5_as_in_2_0(
    here: Mapping[Path, Mapping[str, object]],
) -> None:
    for views, answers_here in here.items():
        new, old = {**answers_here}, answers(views, of_15=True)
        assert str(new.pop("version")).startswith("2.0.")
        assert str(old.pop("version")).startswith("1.5.")
        assert {"main.orders", "exact.orders", "strata.receipts", "main.spam_captures"} <= {*old}
        assert old == new


def test_a_copy_answers_in_1_5_as_the_warehouse_in_2_0(
    merged: Warehouse, here: Mapping[Path, Mapping[str, object]], tmp_path: Path
) -> None:
    place = tmp_path / "copy.duckdb"
    write_copy(merged, place, BlockRange(1, 7000), ())
    assert _storage(place) == "v1.5.0+"
    old, new = answers(place, of_15=True), {**here[merged.current]}
    assert str(old.pop("version")).startswith("1.5.")
    assert old.pop("strata.copy")
    assert {"main.orders", "strata.receipts", "main.spam_captures"} <= {*old}
    for name in ("version", "strata.volumes", "strata.snapshot"):
        del new[name]
    assert old == new


def test_the_program_of_1_5_asks_the_warehouse(loaded: Warehouse, merged: Warehouse) -> None:
    for warehouse in (loaded, merged):
        assert asked_15(warehouse.current, "select max(height) from blocks") == "7000\n"
        comments = asked_15(warehouse.current, "select comment from duckdb_views()")
        assert "Current state as of block 7000." in comments


def test_every_file_of_a_warehouse_is_written_for_1_5(loaded: Warehouse, merged: Warehouse) -> None:
    for warehouse in (loaded, merged):
        written = [*warehouse.cache.rglob("*.duckdb")]
        assert {path.parent.name for path in written} == {"warehouse", "state", "spam"}
        assert {_storage(path) for path in written} == {"v1.5.0+"}


def test_volumes_of_a_release_that_wrote_for_2_0_are_asked_rendered_and_merged(
    loaded: Warehouse,
    here: Mapping[Path, Mapping[str, object]],
    source: Path,
    tmp_path: Path,
) -> None:
    root = tmp_path / "warehouse"
    shutil.copytree(loaded.cache, root, ignore=shutil.ignore_patterns("scratch", "*.lock"))
    (root / "current.duckdb").unlink()
    for volume in (root / "state").iterdir():
        _write_for_2_0(volume)
    earlier = open_warehouse(root)
    relist(earlier)
    earlier.show()
    asked = answers(earlier.current, of_15=False)
    assert {name: asked[name] for name in asked if name.startswith(("main", "exact"))} == {
        name: rows
        for name, rows in here[loaded.current].items()
        if name.startswith(("main", "exact"))
    }
    for segment in sorted(source.glob("*-1-1000.zip")):
        assert all(exact_tables(earlier, segment).values())


def _storage(path: Path) -> str:
    with duckdb.connect(path, read_only=True) as con:
        query = "select tags['storage_version'] from duckdb_databases() where not internal"
        ((found,),) = con.execute(query).fetchall()
        return str(found)


def _write_for_2_0(path: Path) -> None:
    """Write a DuckDB file as one without an option for DuckDB 1.5 would be."""
    old = path.with_suffix(".old")
    path.rename(old)
    with (
        working_connection(path.parent) as con,
        attached(con, old, "old", "(read_only)"),
        attached(con, path, "new", "(storage_version 'v2.0.0')"),
    ):
        con.execute("copy from database old to new")
    old.unlink()
    assert _storage(path) == "v2.0.0+"
