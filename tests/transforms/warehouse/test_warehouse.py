"""The warehouse as a whole: survey, receipts, proof of what is held, sweep, and moving it."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.segments_kit import entry_bytes, table_rows
from tests.transforms.warehouse_kit import (
    Held,
    MemorySink,
    change_rows,
    exact_tables,
    history_segment,
    load_folder,
    query,
    relist,
    render,
    state_segment,
    verify,
    volume_files,
)
from transforms.block_range import BlockRange
from transforms.errors import ConfigError, IntegrityError, RangeError
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.verifying.findings import Problem
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.log_repair import repair
from transforms.warehouse.load.volume_files import store_new
from transforms.warehouse.survey import Survey
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_DAY = 24 * 3600


def _survey(warehouse: Warehouse, folder: Path) -> Survey:
    return warehouse.survey(Source(FolderStore(folder)))


def _snapshot(warehouse: Warehouse) -> int:
    catalog = warehouse.catalog()
    return catalog.snapshot.number


def _files(warehouse: Warehouse) -> set[str]:
    return {
        str(path.relative_to(warehouse.cache))
        for path in warehouse.cache.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the warehouse `w` of the blocks 1-2 and 3-4, and their source `s`."""
    folder = tmp_path_factory.mktemp("template")
    for first in (1, 3):
        orders = table_rows("orders", {"reference": "a\r\nb"}, {"price": "9" * 50}, first=first)
        history_segment(folder / "s", first=first, last=first + 1, tables={"orders": orders})
    load_folder(folder / "w", folder / "s")
    return folder


@pytest.fixture
def small(template: Path, tmp_path: Path) -> Warehouse:
    """A copy of the template to change at will; its views are repaired when it is first queried."""
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    return open_warehouse(tmp_path / "w")


def test_a_warehouse_that_was_never_used_touches_nothing(tmp_path: Path) -> None:
    history_segment(tmp_path / "s", last=2)
    warehouse = open_warehouse(tmp_path / "w")
    assert warehouse.catalog().snapshot.volumes == ()
    assert list(warehouse.snapshot().quarantine) == []
    assert warehouse.receipts() == []
    assert [finding.problem for finding in verify(warehouse)] == [Problem.MISSING]
    assert warehouse.sweep() == []
    assert len(_survey(warehouse, tmp_path / "s").pending) == 1
    assert not warehouse.cache.exists()


def test_a_query_before_the_first_load_says_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="holds nothing yet: load segments first"),
        open_warehouse(tmp_path).connect(),
    ):
        pytest.fail("there is nothing to connect to")


def test_a_survey_counts_the_blocks_that_are_behind(tmp_path: Path, small: Warehouse) -> None:
    assert _survey(small, tmp_path / "s").blocks_behind == 0
    history_segment(tmp_path / "s", first=5, last=9)
    history_segment(tmp_path / "s", first=20, last=20)
    survey = _survey(small, tmp_path / "s")
    assert [file.blocks for file in survey.pending] == [BlockRange(5, 9), BlockRange(20, 20)]
    assert survey.blocks_behind == 6


def test_loading_again_changes_nothing(tmp_path: Path, small: Warehouse) -> None:
    before = {path: (small.cache / path).read_bytes() for path in _files(small)}
    source = Source(FolderStore(tmp_path / "s"))
    every = source.inventory().segments
    for files in (_survey(small, tmp_path / "s").pending, every):
        report = small.load(source, files, MemorySink())
        assert (report.loaded, report.failures) == ([], [])
    (small.cache / "source.json").unlink()  # the kit writes the copy's source anew: it was hashed
    assert {path: (small.cache / path).read_bytes() for path in _files(small)} == before


def test_segments_may_be_given_in_any_order(tmp_path: Path) -> None:
    for first in (1, 3, 5):
        history_segment(tmp_path / "s", first=first, last=first + 1)
    warehouse = open_warehouse(tmp_path / "w")
    source = Source(FolderStore(tmp_path / "s"))
    one, two, three = warehouse.survey(source).pending
    warehouse.load(source, [three, one, two], MemorySink())
    assert len(warehouse.catalog().snapshot.volumes) == 1
    assert query(warehouse, "select height from blocks") == [(n,) for n in range(1, 7)]


def test_a_file_that_changed_after_it_was_loaded_is_reported(
    tmp_path: Path, small: Warehouse
) -> None:
    history_segment(tmp_path / "s", first=3, last=4, tables={"orders": table_rows("orders")})
    survey = _survey(small, tmp_path / "s")
    assert survey.pending == ()
    assert [bad.reason for bad in survey.refused] == [
        "kit-chain-1-3-4.zip changed after it was loaded, which stays as it is"
    ]


def test_a_file_that_is_gone_leaves_the_quarantine(tmp_path: Path) -> None:
    bad = history_segment(tmp_path / "s", last=2, omit=("orders",))
    warehouse = open_warehouse(tmp_path / "w")
    load_folder(warehouse.cache, tmp_path / "s")
    assert [file.key for file in warehouse.snapshot().quarantine] == [bad.name]
    bad.unlink()
    load_folder(warehouse.cache, tmp_path / "s")
    assert list(warehouse.snapshot().quarantine) == []


@pytest.mark.parametrize(
    ("blocks", "table", "found"),
    [
        (None, None, 30),
        (None, "orders", 2),
        ([], None, 0),
        ([BlockRange(3, 4)], None, 15),
        ([BlockRange(3, 4), BlockRange(1, 2)], "blocks", 2),
        ([BlockRange(9, 9)], None, 0),
        (None, "it's", 0),
    ],
)
def test_receipts_are_found_by_segment_and_table(
    template: Path, blocks: list[BlockRange] | None, table: str | None, found: int
) -> None:
    receipts = open_warehouse(template / "w").receipts(blocks)
    assert len([one for one in receipts if table in (None, one.table)]) == found
    order = [(receipt.blocks, receipt.table) for receipt in receipts]
    assert order == sorted(order)


def test_a_receipt_tells_rows_bytes_hash_and_texts(template: Path) -> None:
    data = entry_bytes(template / "s" / "kit-chain-1-3-4.zip", "orders")
    receipts = open_warehouse(template / "w").receipts([BlockRange(3, 4)])
    (receipt,) = (one for one in receipts if one.table == "orders")
    assert (receipt.rows, receipt.bytes) == (2, len(data))
    assert receipt.sha256 == hashlib.sha256(data).hexdigest()
    assert dict(receipt.raw_cells) == {"price": 1}
    assert receipt.schema.header == data.partition(b"\n")[0] + b"\n"
    assert receipt.segment.file_name == "kit-chain-1-3-4.zip"


@pytest.mark.parametrize("blocks", [BlockRange(5, 6), BlockRange(4, 5)])
def test_what_is_not_held_has_no_data_file(template: Path, blocks: BlockRange) -> None:
    with pytest.raises(RangeError, match=f"the warehouse does not hold the segment {blocks}"):
        open_warehouse(template / "w").loaded_catalog().data_path(blocks, "orders")


def test_rendering_leaves_no_scratch(small: Warehouse) -> None:
    render(small, BlockRange(1, 2), "orders")
    assert list((small.cache / "scratch").iterdir()) == []


# --- proof of what is held -----------------------------------------------------------------------


def test_a_whole_warehouse_verifies_table_by_table(held: Held) -> None:
    verification = Verification()
    assert list(verify(held.warehouse, verification)) == []
    catalog = held.warehouse.loaded_catalog()
    assert verification.read[Kind.VOLUMES] == len(catalog.snapshot.volumes)
    assert verification.read == verification.there


def _data(warehouse: Warehouse) -> Path:
    path = warehouse.loaded_catalog().data_path(BlockRange(1, 2), "orders")
    assert path is not None
    return path


def _overwrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _flip(place: float) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(len(data) * place)] ^= 0xFF
        path.write_bytes(data)

    return flip


_DAMAGES: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "emptied": lambda path: _overwrite(path, b""),
    "replaced by text": lambda path: _overwrite(path, b"<html>404</html>" * 1000),
    "cut in half": lambda path: _overwrite(path, path.read_bytes()[: path.stat().st_size // 2]),
    **{f"flipped at {place:.1%}": _flip(place) for place in (0, 0.001, 0.05, 0.25, 0.5, 0.75)},
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_data_file_is_found_and_named(small: Warehouse, damage: str) -> None:
    path = _data(small)
    _DAMAGES[damage](path)
    findings = list(verify(small))
    assert findings
    for finding in findings:
        assert path.name in finding.place
        assert "\n" not in str(finding)
    assert list((small.cache / "scratch").iterdir()) == []


@pytest.mark.parametrize("damage", ["emptied", "cut in half", "flipped at 0.1%"])
def test_a_damaged_data_file_is_not_rendered(small: Warehouse, damage: str) -> None:
    _DAMAGES[damage](_data(small))
    with pytest.raises(IntegrityError, match="run strata repair, then strata load"):
        render(small, BlockRange(1, 2), "orders")


def test_rows_that_were_changed_no_longer_render(small: Warehouse) -> None:
    change_rows(_data(small), "update rows set size = size + 1 where _segment = 1")
    relist(small)
    with pytest.raises(IntegrityError, match="table orders of segment 1-2 no longer renders"):
        render(small, BlockRange(1, 2), "orders")
    (finding,) = verify(small)
    assert "table orders of segment 1-2" in finding.what


@pytest.mark.parametrize(
    "change",
    [
        "delete from rows where _segment = 1 and _row = 2",
        "insert into rows from rows where _segment = 1 limit 1",
        "update rows set version = version + 1 where _segment = 1",
        "update rows set reference = null where _segment = 1",
        "update rows set _raw = null",
        "alter table rows drop column version",
        "alter table rows add column other integer",
        "alter table rows alter size type varchar",
    ],
)
def test_any_change_of_the_rows_is_found(small: Warehouse, change: str) -> None:
    change_rows(_data(small), change)
    relist(small)
    assert any("/data/orders/" in finding.place for finding in verify(small))


@pytest.mark.parametrize("damage", ["removed", "cut in half", "flipped at 25.0%"])
def test_a_damaged_manifest_is_found_and_named(small: Warehouse, damage: str) -> None:
    key = small.loaded_catalog().snapshot.history[0].key
    _DAMAGES[damage](small.cache / key)
    (finding,) = verify(small)
    assert finding.place.endswith(key)


def test_a_wrong_number_of_segments_in_the_log_is_found(small: Warehouse) -> None:
    (volume,) = small.loaded_catalog().snapshot.history
    wrong = replace(volume, segments=volume.segments + 1)
    small.backing.log.commit(lambda newest: newest.with_volumes([wrong, *newest.states]))
    (finding,) = verify(small)
    assert finding.place.endswith(volume.key)
    assert finding.what == f"it has {volume.segments} segments, where the log says {wrong.segments}"


def test_a_load_is_done_though_nothing_may_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise ConfigError("deleting is refused")

    monkeypatch.setattr("transforms.warehouse.warehouse.sweep", refused)
    history_segment(tmp_path / "s", last=2)
    assert len(load_folder(tmp_path / "w", tmp_path / "s").loaded) == 1
    assert "deleting is refused" in caplog.text


@pytest.mark.parametrize("kind", ["history", "state"])
def test_an_index_file_that_does_not_follow_from_its_volume_is_found(
    tmp_path: Path, kind: str
) -> None:
    folder, warehouse = tmp_path / "s", open_warehouse(tmp_path / "w")
    state_segment(folder, first=1, last=2)
    load_folder(warehouse.cache, folder)
    (volume,) = (item for item in warehouse.loaded_catalog().snapshot.volumes if item.kind == kind)
    assert volume.index is not None
    path = tmp_path / "index.sqlite"
    shutil.copy(warehouse.cache / volume.index.key, path)
    table = "orders_by_id" if kind == "history" else "signatures_by_id"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"delete from {table}")
    backing = warehouse.backing
    other = store_new(backing, "index", volume.blocks, path)
    backing.log.commit(
        lambda newest: newest.with_volumes(
            replace(item, index=other) if item.key == volume.key else item
            for item in newest.volumes
        )
    )
    found = [finding for finding in verify(warehouse) if other.key in finding.place]
    assert [finding.what for finding in found] == [
        f"the lookup {table} does not follow from its tables"
    ]
    (warehouse.cache / other.key).unlink()
    (finding,) = (finding for finding in verify(warehouse) if other.key in finding.place)
    assert finding.problem == Problem.MISSING


@pytest.mark.parametrize("kind", ["history", "state"])
def test_the_remedy_that_is_named_works(tmp_path: Path, kind: str) -> None:
    """Remove the volume, repair, load its segments again; what else is held stays untouched."""
    folder, warehouse = tmp_path / "s", open_warehouse(tmp_path / "w")
    for first in (1, 3):
        state_segment(folder, first=first, last=first + 1)
        load_folder(warehouse.cache, folder)
    catalog = warehouse.catalog()
    volumes = catalog.snapshot.history if kind == "history" else catalog.snapshot.states
    (warehouse.cache / volumes[-1].key).unlink()
    (finding,) = verify(warehouse)
    assert finding.place.endswith(volumes[-1].key)
    assert repair(warehouse.backing).findings
    pending = _survey(warehouse, folder).pending
    assert [file.blocks for file in pending] == [BlockRange(3, 4)]
    assert load_folder(warehouse.cache, folder).failures == []
    assert list(verify(warehouse)) == []
    assert query(warehouse, "select count(*), count(distinct height) from blocks") == [(4, 4)]
    assert query(warehouse, "select count(*) from parties") == [(0,)]
    assert _survey(warehouse, folder).pending == ()


# --- sweep and move ------------------------------------------------------------------------------


def test_a_sweep_waits_for_the_readers_of_older_snapshots(tmp_path: Path) -> None:
    """The grace period counts from the day a file is no longer named, however old it is."""
    folder, warehouse = tmp_path / "s", open_warehouse(tmp_path / "w")
    state_segment(folder, last=2)
    load_folder(warehouse.cache, folder)
    first = _files(warehouse)
    (state,) = warehouse.loaded_catalog().snapshot.states
    for path in first:
        if not path.startswith("log/"):
            os.utime(warehouse.cache / path, (0, 0))
    state_segment(folder, first=3, last=4)
    load_folder(warehouse.cache, folder)
    assert first <= _files(warehouse)
    assert warehouse.sweep(grace_seconds=3600) == []
    swept = [key for key in warehouse.sweep(grace_seconds=-1) if not key.startswith("log/")]
    assert swept == sorted(file.key for file in volume_files(state))
    assert list(verify(warehouse)) == []
    assert query(warehouse, "select count(*) from blocks") == [(4,)]


def test_a_file_that_no_snapshot_ever_named_is_swept_after_the_grace(small: Warehouse) -> None:
    orphan = "index/000000001-000000002.orphan.duckdb"
    (small.cache / orphan).write_bytes(b"left by a process that was killed")
    assert small.sweep() == []
    os.utime(small.cache / orphan, (0, 0))
    assert small.sweep() == [orphan]
    assert _data(small).exists()


def test_a_load_sweeps_the_scratch_of_the_dead(tmp_path: Path, small: Warehouse) -> None:
    left = small.cache / "scratch" / "run-dead"
    left.mkdir(parents=True)
    left.with_suffix(".lock").write_bytes(b"")
    (left / "half a volume").write_bytes(b"x")
    load_folder(small.cache, tmp_path / "s")
    assert not left.exists()


def test_the_views_of_a_moved_warehouse_are_written_anew_when_it_is_queried(
    tmp_path: Path, template: Path
) -> None:
    moved = open_warehouse(tmp_path / "elsewhere" / "w")
    shutil.copytree(template / "w", tmp_path / "w", symlinks=True)
    shutil.move(tmp_path / "w", moved.cache)
    for _ in range(2):
        assert query(moved, "select count(*) from blocks") == [(4,)]
        assert query(moved, "select distinct warehouse from strata.snapshot") == [
            (str(moved.cache),)
        ]
        assert _snapshot(moved) == 2
    assert len(load_folder(moved.cache, template / "s").loaded) == 0
    assert all(exact_tables(moved, template / "s" / "kit-chain-1-3-4.zip").values())


@pytest.mark.parametrize("way", ["s/../w", "../{folder}/w", "link"])
def test_a_warehouse_is_the_same_by_every_way_to_it(
    template: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (template / "link").exists():
        (template / "link").symlink_to(template / "w")
    monkeypatch.chdir(template)
    for root in (
        template / way.format(folder=template.name),
        Path(way.format(folder=template.name)),
    ):
        assert query(open_warehouse(root), "select count(*) from blocks") == [(4,)]
        assert _snapshot(open_warehouse(root)) == 2
