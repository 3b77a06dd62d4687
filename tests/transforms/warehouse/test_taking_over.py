"""Warehouses of the release before the log, taken over at the first command."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.segments_kit import table_rows
from tests.transforms.earlier_kit import make_earlier
from tests.transforms.kill_process import act
from tests.transforms.warehouse_kit import (
    exact_tables,
    history_segment,
    load_folder,
    query,
    state_segment,
)
from transforms.segments.source import Source
from transforms.stores.folder import FolderStore
from transforms.stores.store import content_sha256
from transforms.warehouse.document import Document
from transforms.warehouse.earlier_release import EarlierRelease
from transforms.warehouse.opening import open_warehouse
from transforms.warehouse.warehouse import Warehouse

_PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An earlier release's warehouse `w` and its source `s`.

    Of the blocks 1-8 in a volume that was sorted as a whole, 9-10 beside it, a refused file for
    11-12, current state as of 10 and spam captures.
    """
    folder = tmp_path_factory.mktemp("template")
    for first in (1, 3, 5, 7):
        orders = table_rows("orders", {"reference": "a\r\nb"}, {"price": "9" * 50}, first=first)
        history_segment(folder / "s", first=first, last=first + 1, tables={"orders": orders})
        load_folder(folder / "w", folder / "s")
    open_warehouse(folder / "w").compact(most_partial=1)
    state_segment(folder / "s", first=9, last=10)
    history_segment(folder / "s", first=11, last=12, corrupt=lambda data: data[:-40])
    line = {"partyId": "ab" * 32, "chainId": "kit-chain", "statistics": {"epochSeq": 5}}
    (folder / "s" / "spam").mkdir()
    (folder / "s" / "spam" / "kit-chain-10.ndjson").write_text(json.dumps(line) + "\n")
    load_folder(folder / "w", folder / "s")
    open_warehouse(folder / "w").load_captures(Source(FolderStore(folder / "s")))
    warehouse = open_warehouse(folder / "w")
    warehouse.sweep(0, 0)
    shutil.rmtree(folder / "w" / "log")
    return _earlier(folder, warehouse)


def _earlier(folder: Path, warehouse: Warehouse) -> Path:
    """Write the last document back as the only one, and make all that of the earlier release."""
    document = warehouse.last_seen()
    assert document is not None
    warehouse.backing.log.create(document.document)
    make_earlier(folder / "w")
    return folder


@pytest.fixture
def earlier(template: Path, tmp_path: Path) -> Path:
    """A copy of the template."""
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path


def _document(warehouse: Warehouse) -> Document:
    document = warehouse.document()
    assert document is not None
    return document


def _times(root: Path) -> dict[Path, tuple[int, int]]:
    """When each volume was written, and its inode."""
    volumes = [*root.glob("volumes/*"), *root.glob("state/*")]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in volumes}


def _check_whole(folder: Path) -> None:
    """The warehouse of the template is taken over, nothing is left of the earlier release."""
    root = folder / "w"
    warehouse = open_warehouse(root)
    document = _document(warehouse)
    assert [(one.kind, str(one.blocks), one.is_sorted) for one in document.volumes] == [
        ("history", "1-8", False),
        ("history", "9-10", False),
        ("state", "9-10", False),
    ]
    for file in document.files():
        assert content_sha256(root / file.key) == file.sha256
    assert all(volume.record for volume in document.history())
    (refused,) = document.quarantine
    assert (refused.key, refused.copy is not None) == ("kit-chain-1-11-12.zip", True)
    assert query(warehouse, "select count(*), max(epoch) from spam_captures") == [(1, 5)]
    assert not (root / "current.duckdb").is_symlink()
    open_warehouse(root).document()
    assert not [*root.glob("quarantine/*.json"), *root.glob("catalog/*"), *root.glob("spam/cur*")]


def test_nothing_is_loaded_again_and_no_volume_is_touched(template: Path, earlier: Path) -> None:
    root = earlier / "w"
    before = _times(root)

    warehouse = open_warehouse(root)
    assert _document(warehouse).generation == 1

    survey = warehouse.survey(Source(FolderStore(template / "s")))
    assert not survey.pending
    assert [bad.key for bad in survey.known_bad] == ["kit-chain-1-11-12.zip"]
    assert _times(root) == before
    for segment in sorted((earlier / "s").glob("*.zip")):
        if "-11-" not in segment.name:
            assert set(exact_tables(warehouse, segment).values()) == {True}
    assert list(warehouse.verify()) == []
    _check_whole(earlier)


def test_the_views_of_before_stay_until_there_are_new_ones(earlier: Path) -> None:
    link = earlier / "w" / "current.duckdb"
    open_warehouse(earlier / "w").document()
    open_warehouse(earlier / "w").document()
    assert link.resolve().name == "00000007.duckdb"
    assert link.exists()


def test_with_a_cache_elsewhere_nothing_of_before_stays(earlier: Path, tmp_path: Path) -> None:
    open_warehouse(earlier / "w", tmp_path / "cache").document()
    assert not (earlier / "w" / "current.duckdb").is_symlink()
    assert not (earlier / "w" / "catalog").exists()


def test_missing_and_damaged_volumes_are_left_out_and_loaded_again(
    earlier: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (missing,) = (earlier / "w" / "volumes").glob("000000009-*")
    missing.unlink()
    (damaged,) = (earlier / "w" / "volumes").glob("000000001-*")
    damaged.write_bytes(damaged.read_bytes()[:5000])
    (earlier / "s" / "kit-chain-1-11-12.zip").unlink()

    warehouse = open_warehouse(earlier / "w")
    with caplog.at_level(logging.WARNING):
        assert not _document(warehouse).history()
    assert f"{missing} is missing: its segments count as not loaded" in caplog.text
    assert f"left out, its segments count as not loaded: {damaged} cannot be read" in caplog.text

    load_folder(earlier / "w", earlier / "s")
    (volume,) = _document(open_warehouse(earlier / "w")).history()
    assert str(volume.blocks) == "1-10"


def test_a_damaged_catalog_is_no_loss(earlier: Path, caplog: pytest.LogCaptureFixture) -> None:
    (earlier / "w" / "catalog" / "00000007.duckdb").write_bytes(b"nothing")
    with caplog.at_level(logging.WARNING):
        open_warehouse(earlier / "w").document()
    assert "00000007.duckdb in " in caplog.text
    _check_whole(earlier)


def test_refusals_alone_are_taken_over(earlier: Path) -> None:
    for folder in ("catalog", "volumes", "state", "spam"):
        shutil.rmtree(earlier / "w" / folder)
    (earlier / "w" / "current.duckdb").unlink()
    document = _document(open_warehouse(earlier / "w"))
    assert [file.key for file in document.quarantine] == ["kit-chain-1-11-12.zip"]
    assert not list((earlier / "w").glob("quarantine/*.json"))


def test_whoever_is_slower_takes_what_the_other_wrote(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = open_warehouse(earlier / "w")
    create = slow.backing.log.create

    def create_later(document: Document) -> Document | None:
        _document(open_warehouse(earlier / "w"))
        return create(document)

    monkeypatch.setattr(slow.backing.log, "create", create_later)
    assert _document(slow).commit == _document(open_warehouse(earlier / "w")).commit
    assert len(list((earlier / "w" / "log").iterdir())) == 1
    _check_whole(earlier)


def test_whoever_finds_the_catalog_gone_takes_what_the_other_wrote(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = EarlierRelease.volumes

    def volumes_later(release: EarlierRelease, catalog: Path) -> list[str]:
        monkeypatch.undo()
        _check_whole(earlier)
        return volumes(release, catalog)

    monkeypatch.setattr(EarlierRelease, "volumes", volumes_later)
    _document(open_warehouse(earlier / "w"))
    assert len(list((earlier / "w" / "log").iterdir())) == 1
    _check_whole(earlier)


def test_several_processes_at_once_write_one_document(earlier: Path) -> None:
    script = "import sys; from tests.transforms.kill_process import act; from pathlib import Path; "
    script += "act(Path(sys.argv[1]), 'open')"
    processes = [
        subprocess.Popen([sys.executable, "-c", script, earlier / "w"], cwd=_PROJECT)
        for _ in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list((earlier / "w" / "log").iterdir())) == 1
    assert len(list((earlier / "w" / "records").iterdir())) == 2
    _check_whole(earlier)


def test_killed_at_any_step_and_run_again_it_is_the_same(earlier: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    subprocess.run(
        [sys.executable, "-m", "tests.transforms.kill_process", earlier / "w", copies, "open"],
        cwd=_PROJECT,
        check=True,
    )
    killed = sorted(copies.iterdir())
    assert len(killed) > 8  # two records, the document, what was seen, and five removals
    for root in killed:
        folder = root.with_name(f"{root.name}-again")
        folder.mkdir()
        root.rename(folder / "w")
        act(folder / "w", "open")
        _check_whole(folder)
