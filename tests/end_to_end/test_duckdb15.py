"""DuckDB 1.5, as people have it, opens what is written, and gives the answers of DuckDB 2.0."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from pipelines.sample_history import copy_sample
from tests.duckdb15_kit import answers, asked_15
from tests.transforms.warehouse_kit import MemorySink
from transforms.block_range import BlockRange
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.capture_file import load_captures
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
def merged(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The sample, loaded into two volumes, which then were merged."""
    warehouse = open_warehouse(tmp_path_factory.mktemp("merged") / "warehouse")
    files = warehouse.survey(Source(FolderStore(source))).pending
    for some in (files[:4], files[4:]):
        assert warehouse.load(Source(FolderStore(source)), some, MemorySink()).failures == []
    warehouse.compact(most_partial=1)
    assert len(warehouse.loaded_catalog().snapshot.history) == 1
    assert len(load_captures(warehouse, Source(FolderStore(source)))) == 1
    return warehouse


@pytest.fixture(scope="module")
def here(merged: Warehouse) -> Mapping[str, object]:
    """What the views answer in 2.0."""
    return answers(merged.current, of_15=False)


def test_every_view_answers_in_1_5_as_in_2_0(merged: Warehouse, here: Mapping[str, object]) -> None:
    new, old = {**here}, answers(merged.current, of_15=True)
    assert str(new.pop("version")).startswith("2.0.")
    assert str(old.pop("version")).startswith("1.5.")
    assert {"main.orders", "exact.orders", "strata.receipts", "main.spam_captures"} <= {*old}
    assert old == new


def test_a_copy_answers_in_1_5_as_the_warehouse_in_2_0(
    merged: Warehouse, here: Mapping[str, object], tmp_path: Path
) -> None:
    place = tmp_path / "copy.duckdb"
    write_copy(merged, place, BlockRange(1, 7000), ())
    assert _storage(place) == "v1.5.0+"
    old, new = answers(place, of_15=True), {**here}
    assert str(old.pop("version")).startswith("1.5.")
    assert old.pop("strata.copy")
    assert {"main.orders", "strata.receipts", "main.spam_captures"} <= {*old}
    for name in ("version", "strata.snapshot"):
        del new[name]
    assert old == new


def test_the_program_of_1_5_asks_the_warehouse(merged: Warehouse) -> None:
    assert asked_15(merged.current, "select max(height) from blocks") == "7000\n"
    comments = asked_15(merged.current, "select comment from duckdb_views()")
    assert "Current state after the segment of _segment." in comments


def test_every_file_of_a_warehouse_is_written_for_1_5(merged: Warehouse) -> None:
    written = [*merged.cache.rglob("*.duckdb")]
    assert {path.parent.name for path in written} == {"warehouse", "state", "spam"}
    assert {_storage(path) for path in written} == {"v1.5.0+"}


def _storage(path: Path) -> str:
    with duckdb.connect(path, read_only=True) as con:
        query = "select tags['storage_version'] from duckdb_databases() where not internal"
        ((found,),) = con.execute(query).fetchall()
        return str(found)
