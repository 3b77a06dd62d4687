"""Warehouses whose log is lost, made again from their volumes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.s3_kit import BucketServer, bucket_server
from tests.transforms.kill_process import act, killed_copies
from tests.transforms.warehouse_kit import (
    exact_tables,
    history_segment,
    load_folder,
    state_segment,
)
from transforms.errors import IntegrityError
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256
from transforms.warehouse.capture_file import load_captures
from transforms.warehouse.checks.log_repair import repair
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.snapshot import Snapshot, parse_snapshot
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse `w` without a log, and its source `s`.

    There are volumes of 1-2, 3-4 and 5-6, one that was merged of the first two, 7-8 with a state,
    and an older state as of 6; `snapshot.json` is the newest snapshot as it was.
    """
    folder = tmp_path_factory.mktemp("template")
    for first in (1, 3):
        history_segment(folder / "s", first=first, last=first + 1)
        load_folder(folder / "w", folder / "s")
    open_warehouse(folder / "w").compact(most_partial=1)
    for first in (5, 7):
        state_segment(folder / "s", first=first, last=first + 1)
        load_folder(folder / "w", folder / "s")
    line = {"partyId": "ab" * 32, "chainId": "kit-chain", "statistics": {"epochSeq": 5}}
    for number in (1, 2):
        (folder / "s" / "spam").mkdir(exist_ok=True)
        (folder / "s" / "spam" / f"kit-chain-{number}.ndjson").write_text(json.dumps(line) + "\n")
        load_captures(open_warehouse(folder / "w"), Source(FolderStore(folder / "s")))
    newest = max((folder / "w" / "log").iterdir())
    newest.rename(folder / "snapshot.json")
    shutil.rmtree(folder / "w" / "log")
    return folder


@pytest.fixture
def lost(template: Path, tmp_path: Path) -> Path:
    """A copy of the template."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


def _snapshot(warehouse: Warehouse) -> Snapshot:
    return warehouse.snapshot()


def _made_again(warehouse: Warehouse) -> tuple[Snapshot, str]:
    """The newest snapshot after a repair, and what that found."""
    with pytest.raises(IntegrityError, match=r"is lost, and manifests/.* run strata repair"):
        warehouse.snapshot()
    findings = repair(warehouse.backing).findings
    return _snapshot(warehouse), "\n".join(problem for _, problem in findings)


def _before(folder: Path) -> Snapshot:
    return parse_snapshot((folder / "snapshot.json").read_bytes(), "")


def _pending(folder: Path) -> list[str]:
    survey = open_warehouse(folder / "w").survey(Source(FolderStore(folder / "s")))
    return [str(file.blocks) for file in survey.pending]


def test_all_is_as_it_was(lost: Path) -> None:
    before = _before(lost)
    snapshot, _ = _made_again(open_warehouse(lost / "w"))
    assert snapshot.volumes == before.volumes
    assert [str(one.blocks) for one in snapshot.history] == ["1-4", "5-6", "7-8"]
    assert [str(one.blocks) for one in snapshot.states] == ["7-8"]
    assert snapshot.captures == before.captures
    assert not _pending(lost)
    for segment in sorted((lost / "s").glob("*.zip")):
        assert set(exact_tables(open_warehouse(lost / "w"), segment).values()) == {True}


def test_index_files_are_made_again(lost: Path) -> None:
    shutil.rmtree(lost / "w" / "index")
    volumes = _made_again(open_warehouse(lost / "w"))[0].volumes
    assert {volume.kind for volume in volumes} == {"history", "state"}
    assert [replace(volume, index=None) for volume in volumes] == [
        replace(volume, index=None) for volume in _before(lost).volumes
    ]
    assert all(volume.index is not None for volume in volumes)
    assert not _pending(lost)


def test_a_damaged_volume_is_left_out_and_smaller_ones_take_its_place(lost: Path) -> None:
    for name in ("000000001-000000004.*", "000000007-*"):
        (path,) = (lost / "w" / "data" / "blocks").glob(name)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    snapshot, said = _made_again(open_warehouse(lost / "w"))
    assert f"{path} is damaged: it hashes to " in said
    assert [str(one.blocks) for one in snapshot.history] == ["1-2", "3-4", "5-6"]
    assert [str(one.blocks) for one in snapshot.states] == ["5-6"]
    assert _pending(lost) == ["7-8"]


def test_volumes_of_another_chain_are_left_and_named(lost: Path, tmp_path: Path) -> None:
    history_segment(tmp_path / "other", first=11, last=11, chain_id="other-chain")
    load_folder(tmp_path / "o", tmp_path / "other")
    for folder in ("manifests", "data"):
        shutil.copytree(tmp_path / "o" / folder, lost / "w" / folder, dirs_exist_ok=True)
    snapshot, said = _made_again(open_warehouse(lost / "w"))
    assert "it is of the chain other-chain, not kit-chain" in said
    assert snapshot.volumes == _before(lost).volumes


def test_volumes_of_several_warehouses_become_one(lost: Path, tmp_path: Path) -> None:
    history_segment(tmp_path / "other", first=11, last=12)
    load_folder(tmp_path / "o", tmp_path / "other")
    for folder in ("manifests", "data"):
        shutil.copytree(tmp_path / "o" / folder, lost / "w" / folder, dirs_exist_ok=True)
    snapshot, _ = _made_again(open_warehouse(lost / "w"))
    assert [str(one.blocks) for one in snapshot.history] == ["1-4", "5-6", "7-8", "11-12"]


def test_a_load_that_has_just_begun_is_no_lost_log(lost: Path) -> None:
    began = open_warehouse(lost / "w", lost / "cache").backing.log.begin()
    assert _snapshot(open_warehouse(lost / "w")) == began


def test_of_two_repairs_the_slower_one_changes_nothing(
    lost: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = open_warehouse(lost / "w")
    create = slow.backing.log.create

    def create_later(snapshot: Snapshot) -> Snapshot | None:
        repair(open_warehouse(lost / "w").backing)
        return create(snapshot)

    monkeypatch.setattr(slow.backing.log, "create", create_later)
    repair(slow.backing)
    assert _snapshot(slow).commit == _snapshot(open_warehouse(lost / "w")).commit
    assert len(list((lost / "w" / "log").iterdir())) == 1


def test_killed_at_any_step_and_run_again_it_is_the_same(
    lost: Path, tmp_path: Path, kills: int
) -> None:
    shutil.rmtree(lost / "w" / "index")
    killed = killed_copies(lost / "w", tmp_path / "copies", kills)
    assert len(killed) > 5  # nothing, four index files, the snapshot
    for root in killed:
        act(root)
        volumes = _snapshot(open_warehouse(root)).volumes
        assert [volume.file for volume in volumes] == [one.file for one in _before(lost).volumes]
        assert len(list((root / "log").iterdir())) <= 2  # one names the index files, too


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


def test_a_bucket_is_rebuilt_like_a_folder(
    lost: Path, server: BucketServer, tmp_path: Path
) -> None:
    with server.store() as store:
        for path in sorted((lost / "w").rglob("*")):
            key = path.relative_to(lost / "w").as_posix()
            if path.is_file() and not key.startswith(("log/", ".", "leases/")):
                store.put_if_absent(
                    key, path, content_type="", sha256=content_sha256(path), immutable=True
                )
        (damaged,) = (info.key for info in store.list("data/blocks/000000007-"))
        bucket, _, key = store.describe(damaged).removeprefix("s3://").partition("/")
        server.client.put_object(Bucket=bucket, Key=key, Body=b"something else")

        warehouse = Warehouse(Backing(store, tmp_path / "cache"))
        snapshot, _ = _made_again(warehouse)
        assert [str(one.blocks) for one in snapshot.history] == ["1-4", "5-6"]
        assert snapshot.captures == _before(lost).captures
        segment = lost / "s" / "kit-chain-1-5-6.zip"
        assert set(exact_tables(warehouse, segment).values()) == {True}
