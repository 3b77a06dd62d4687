"""Repairing a warehouse whose log and files no longer agree."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fault_proxy import PASS, Request
from tests.s3_kit import BucketServer, bucket_server
from tests.transforms.kill_process import act, killed_copies
from tests.transforms.warehouse_kit import (
    MemorySink,
    exact_tables,
    history_segment,
    load_folder,
    state_segment,
    verify,
)
from transforms.errors import IntegrityError
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.verifying.verification import Verification
from transforms.warehouse.checks.log_repair import Repair, repair
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import snapshot_key
from transforms.warehouse.log.snapshot import Snapshot, following
from transforms.warehouse.manifests.manifest import read_segments
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_PROVEN: set[str] = set()
"""The SHA-256 of volumes whose tables a test has read, and of their records."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse `w` of 1-2, 3-4 and 5-6 with a state and a refused file, and its source `s`.

    `backup` is its log as it was when only 1-2 were loaded, `fresh` how a machine saw it then.
    """
    folder = tmp_path_factory.mktemp("template")
    history_segment(folder / "s", first=1, last=2)
    history_segment(folder / "s", first=21, last=22, corrupt=lambda data: data[:-40])
    load_folder(folder / "w", folder / "s")
    shutil.copytree(folder / "w" / "log", folder / "backup")
    for first in (3, 5):
        state_segment(folder / "s", first=first, last=first + 1)
        load_folder(folder / "w", folder / "s")
    return folder


@pytest.fixture
def sound(template: Path, tmp_path: Path) -> Path:
    """A copy of the template."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


def _snapshot(folder: Path) -> Snapshot:
    return open_warehouse(folder / "w").snapshot()


def _blocks(folder: Path) -> list[str]:
    return [str(volume.blocks) for volume in _snapshot(folder).history]


def _repair(folder: Path) -> Repair:
    return repair(open_warehouse(folder / "w").backing)


def _verify(folder: Path) -> list[str]:
    """What verifying finds. Tables are read once of each manifest, which names their files.

    That is enough, as `repair` has just hashed these: other copies of them are the same bytes.
    """
    hashes = {volume.file.sha256 for volume in _snapshot(folder).volumes}
    is_proven = hashes <= _PROVEN
    verification = Verification(is_quick=is_proven)
    findings = [finding.what for finding in verify(open_warehouse(folder / "w"), verification)]
    _PROVEN.update(hashes)
    return findings


def _check_sound(folder: Path, blocks: list[str] | None = None, lost: str = "") -> None:
    """Nothing is wrong but what is lost, and everything renders; the log grew as it may."""
    report = _repair(folder)
    said = f"it lacks {lost}, which had been loaded and were lost"
    assert report.findings == []
    assert f" {report.lost}".partition(" lacks ")[2].startswith(lost)
    assert bool(report.lost) == bool(lost)
    assert _blocks(folder) == (blocks or ["1-2", "3-4", "5-6"])
    assert _verify(folder) == ([said] if lost else [])
    warehouse = open_warehouse(folder / "w")
    for segment in sorted((folder / "s").glob("*.zip")):
        if "-21-" not in segment.name:
            assert set(exact_tables(warehouse, segment).values()) <= {True}


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 3, len(data) // 3 + 50):
        data[place] ^= 255
    path.write_bytes(data)


def _put_back(folder: Path) -> None:
    """Put the backup in the place of the log."""
    shutil.rmtree(folder / "w" / "log")
    shutil.copytree(folder / "backup", folder / "w" / "log")


def _problems(report: Repair) -> dict[str, str]:
    return dict(report.findings)


def test_a_sound_warehouse_is_said_to_be_sound_and_nothing_is_written(sound: Path) -> None:
    snapshot, hashed = _snapshot(sound), list[int]()
    report = repair(open_warehouse(sound / "w").backing, hashed.append)
    assert report.findings == []
    assert sum(hashed) >= sum(file.size for file in snapshot.files())
    assert report.snapshot == snapshot.number
    assert _snapshot(sound) == snapshot


def test_nothing_at_all_is_not_well(tmp_path: Path) -> None:
    nothing = ["there is no log and no volume: is this the right place?"]
    for folder in ("", "there"):
        (tmp_path / folder / "w").mkdir(parents=True)
        assert [problem for _, problem in _repair(tmp_path / folder).findings] == nothing
    assert [problem for _, problem in _repair(tmp_path / "absent").findings] == nothing
    assert not (tmp_path / "absent").exists()


def _damage(path: Path) -> None:
    _flip(path)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def _replace_by_older(path: Path) -> None:
    shutil.copy(min(path.parent.iterdir()), path)


@pytest.mark.parametrize("harm", [_damage, _cut, _replace_by_older])
def test_a_damaged_snapshot_is_followed_by_a_sound_one(
    sound: Path, harm: Callable[[Path], None]
) -> None:
    before = _snapshot(sound)
    harm(sound / "w" / snapshot_key(before.number))
    with pytest.raises(IntegrityError, match="run strata repair"):
        _snapshot(sound)

    report = _repair(sound)
    assert snapshot_key(before.number) in _problems(report)
    after = _snapshot(sound)
    assert after.number > before.number  # whoever knows the damaged one cannot go on
    assert after.volumes == before.volumes
    assert after.quarantine == before.quarantine
    _check_sound(sound)


def test_where_all_snapshots_are_damaged_they_are_made_anew(sound: Path) -> None:
    before = _snapshot(sound)
    for path in (sound / "w" / "log").iterdir():
        path.write_bytes(b"{}")
    said = [what for what, _ in _repair(sound).findings if what.startswith("log")]
    assert len(said) == before.number
    assert _snapshot(sound).volumes == before.volumes
    _check_sound(sound)


def test_a_missing_volume_is_no_longer_named_and_loads_again(sound: Path) -> None:
    missing = _snapshot(sound).history[1]
    (sound / "w" / missing.key).unlink()
    after = f"snapshot {_snapshot(sound).number + 1}"
    first, second = _repair(sound).findings
    assert first == (missing.key, "it is missing")
    lost = "it lacks the blocks 3 to 4, which had been loaded and were lost: run strata load"
    assert (second[0], second[1].partition(";")[0]) == (after, lost)
    _check_sound(sound, ["1-2", "5-6"], "the blocks 3 to 4")
    load_folder(sound / "w", sound / "s")
    _check_sound(sound)


def test_a_damaged_volume_is_found_by_its_hash_and_loads_again(sound: Path) -> None:
    damaged = _snapshot(sound).history[1]
    _flip(sound / "w" / damaged.key)
    assert "it is damaged: it hashes to" in " ".join(map(str, _repair(sound).findings))
    assert _blocks(sound) == ["1-2", "5-6"]
    assert _repair(sound).findings == []
    assert not (sound / "w" / damaged.key).exists()
    assert len([*(sound / "w" / "quarantine").glob("*.parquet")]) == 1
    load_folder(sound / "w", sound / "s")
    _check_sound(sound)


def test_a_missing_merged_volume_is_replaced_by_what_it_was_made_of(sound: Path) -> None:
    open_warehouse(sound / "w").compact(most_partial=1)
    (merged,) = _snapshot(sound).history
    (sound / "w" / merged.key).unlink()
    assert set(_problems(_repair(sound)).values()) == {
        "it is missing",
        "no snapshot in the log names it: taken in",
    }
    _check_sound(sound)


def test_a_missing_state_is_replaced_by_an_older_one(sound: Path) -> None:
    (newest,) = _snapshot(sound).states
    (sound / "w" / newest.key).unlink()
    _repair(sound)
    (state,) = _snapshot(sound).states
    assert str(state.blocks) == "3-4"
    _check_sound(sound, lost="the current state at block 6")
    load_folder(sound / "w", sound / "s")
    _check_sound(sound)


@pytest.mark.parametrize("at", [0, 1, -1], ids=["a run", "a later run", "a state"])
@pytest.mark.parametrize("harm", [Path.unlink, _flip, _cut])
def test_index_files_are_made_again_from_tables(
    sound: Path, harm: Callable[[Path], None], at: int
) -> None:
    before = _snapshot(sound).volumes[at]
    assert before.kind == ("state" if at < 0 else "history")
    assert before.index is not None
    harm(sound / "w" / before.index.key)
    assert [what for what, _ in _repair(sound).findings] == [before.index.key]
    after = _snapshot(sound).volumes[at]
    assert after.index is not None
    assert after.index != before.index
    assert replace(after, index=before.index) == before
    _check_sound(sound)


def test_a_damaged_manifest_is_not_believed(sound: Path) -> None:
    path = sound / "w" / _snapshot(sound).history[1].key
    whole = path.read_bytes()
    said = set()
    for place in range(4, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        read_segments.cache_clear()
        try:
            read_segments(path)
        except IntegrityError as error:
            said.add(str(error))
    assert said == {f"{path} is damaged: run strata repair and load its segments again"}


def test_a_lost_copy_of_a_refused_file_is_tried_again(sound: Path) -> None:
    (refused,) = _snapshot(sound).quarantine
    assert refused.copy is not None
    (sound / "w" / refused.copy.key).unlink()
    _repair(sound)
    source = Source(FolderStore(sound / "s"))
    survey = open_warehouse(sound / "w").survey(source)
    assert [file.info.key for file in survey.pending] == [refused.key]


def test_what_a_killed_load_left_is_taken_in(sound: Path) -> None:
    """A volume that was stored, and not named before its load was killed."""
    snapshot = _snapshot(sound)
    log = open_warehouse(sound / "w").backing.log
    kept = [one for one in snapshot.volumes if str(one.blocks) != "5-6"]
    base = replace(snapshot, number=snapshot.number - 2)
    for path in sorted((sound / "w" / "log").iterdir())[-2:]:
        path.unlink()  # two later snapshots; the volumes were built upon the one before
    (sound / "w" / "seen_snapshot.json").unlink()
    newest = following(base, snapshot.with_volumes(kept), time.time())
    assert log.create(replace(newest, dropped={}))  # nothing had named it

    load = open_warehouse(sound / "w")
    assert load.sweep() == []
    unknown = "no snapshot names it, and it has blocks that the log lacks"
    assert unknown not in _verify(sound)  # a load may be about to name it
    for path in (sound / "w").rglob("000000005-*"):
        os.utime(path, (time.time() - 10 * 24 * 3600,) * 2)
    # Its data files are taken in with it: no sweep removes them, and nothing else is said.
    assert load.sweep() == []
    said = _verify(sound)
    assert unknown in said
    assert "no sweep removes it" not in " ".join(said)
    for path in (sound / "w").rglob("000000005-*"):
        os.utime(path)
    (finding, state) = _repair(sound).findings
    assert finding[1] == "no snapshot in the log names it: taken in"
    assert state[0].startswith("state/")
    _check_sound(sound)


def _refuses(folder: Path) -> list[str]:
    """What each command says of a log that is too old."""
    warehouse = open_warehouse(folder / "w")
    said = []
    source = Source(FolderStore(folder / "s"))
    for action in (
        warehouse.catalog,
        lambda: warehouse.load(source, (), MemorySink()),
        warehouse.compact,
        warehouse.sweep,
    ):
        with pytest.raises(IntegrityError) as raised:
            action()
        said.append(str(raised.value))
    return said


def test_an_older_log_is_refused(sound: Path) -> None:
    assert _snapshot(sound).number == 5
    _put_back(sound)
    before = sorted((sound / "w").rglob("*"))
    for said in _refuses(sound):
        assert "ends with snapshot 3, and snapshot 5 was seen" in said
        assert said.endswith(
            "run strata repair, which takes in the volumes that the log does not name"
        )
    assert sorted((sound / "w").rglob("*")) == before


@pytest.mark.parametrize("machine", ["w", "other-machine"])
def test_an_older_log_may_be_completed_with_the_volumes(
    sound: Path, tmp_path: Path, machine: str
) -> None:
    before = _snapshot(sound)
    _put_back(sound)
    assert repair(open_warehouse(sound / "w", tmp_path / machine).backing).findings
    if machine != "w":  # the log still ends before what the first machine has seen
        assert "it ends with snapshot 4, and snapshot 5 was seen" in str(_repair(sound).findings)
    assert _snapshot(sound).volumes == before.volumes
    _check_sound(sound)


def test_a_process_that_knows_the_older_log_notices_the_repair(sound: Path, tmp_path: Path) -> None:
    _put_back(sound)
    process = open_warehouse(sound / "w", tmp_path / "machine-of-the-process")
    assert process.snapshot().number
    _repair(sound)
    newest = process.snapshot()
    assert newest == _snapshot(sound)


def test_a_lost_log_is_made_again(sound: Path) -> None:
    shutil.rmtree(sound / "w" / "log")
    with pytest.raises(IntegrityError, match=r"is lost, and manifests/.* run strata repair"):
        open_warehouse(sound / "w").snapshot()
    _repair(sound)
    snapshot = _snapshot(sound)
    assert [str(one.blocks) for one in snapshot.history] == ["1-2", "3-4", "5-6"]
    assert snapshot.quarantine == ()  # refused files are tried again
    _repair(sound)
    _check_sound(sound)


def _taken(other: Path, sound: Path) -> Path:
    """Copy the one run of segments of another warehouse; returns its manifest."""
    (manifest,) = (other / "manifests").iterdir()
    shutil.copy(manifest, sound / "w" / "manifests")
    shutil.copytree(other / "data", sound / "w" / "data", dirs_exist_ok=True)
    return manifest


@pytest.mark.parametrize("first", [5, 7])
def test_a_volume_is_taken_where_its_blocks_are_free(
    sound: Path, tmp_path: Path, first: int
) -> None:
    for block in range(first, 9, 2):
        history_segment(tmp_path / "other", first=block, last=block + 1)
    load_folder(tmp_path / "o", tmp_path / "other")
    _taken(tmp_path / "o", sound)
    ((_, problem),) = _repair(sound).findings
    assert problem.startswith(
        "moved to quarantine/" if first == 5 else "no snapshot in the log names"
    )
    assert _blocks(sound) == ["1-2", "3-4", "5-6", *(["7-8"] if first == 7 else [])]


def test_beside_a_writer_what_both_did_counts(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = _snapshot(sound).history[1]
    (sound / "w" / lost.key).unlink()
    warehouse = open_warehouse(sound / "w")
    create, others = warehouse.backing.log.create, open_warehouse(sound / "w").backing.log

    def create_later(snapshot: Snapshot) -> Snapshot | None:
        monkeypatch.undo()
        others.commit(lambda newest: replace(newest, quarantine=()))
        return create(snapshot)

    monkeypatch.setattr(warehouse.backing.log, "create", create_later)
    snapshot = _snapshot(sound).number
    assert repair(warehouse.backing).snapshot == snapshot + 2
    assert lost not in _snapshot(sound).volumes


@pytest.mark.parametrize(
    "case",
    ["older", *(pytest.param(case, marks=pytest.mark.crash) for case in ("damaged", "lost"))],
)
def test_killed_at_any_step_and_run_again_it_is_the_same(
    sound: Path, tmp_path: Path, case: str, kills: int
) -> None:
    before = _snapshot(sound)
    if case == "damaged":
        _flip(sound / "w" / snapshot_key(before.number))
    elif case == "older":
        _put_back(sound)
    else:
        shutil.rmtree(sound / "w" / "log")
    for path in (sound / "w" / "index").iterdir():
        path.unlink()
    killed = killed_copies(sound / "w", tmp_path / "copies", kills)
    assert len(killed) > 4  # nothing, three index files, the snapshot
    for root in killed:
        act(root)
        assert repair(open_warehouse(root).backing).findings == []
        snapshot = open_warehouse(root).snapshot()
        assert [one.file for one in snapshot.volumes] == [one.file for one in before.volumes]


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


def _uploaded(folder: Path, server: BucketServer, bucket: str) -> Warehouse:
    """The warehouse of the template in a bucket, as a machine sees it that has nothing of it."""
    warehouse = open_warehouse(
        f"s3://{bucket}/some/prefix", folder / "cache", options=server.options()
    )
    root = folder / "w"
    for name in ("manifests", "data", "index", "state", "quarantine", "log"):
        for path in sorted(item for item in (root / name).rglob("*") if item.is_file()):
            key = f"some/prefix/{path.relative_to(root).as_posix()}"
            server.client.upload_file(str(path), bucket, key)
    return warehouse


def test_a_bucket_is_repaired_like_a_folder(
    sound: Path, server: BucketServer, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = server.bucket()
    before = _snapshot(sound)
    _put_back(sound)
    damaged, lacking = before.history[0].data["blocks"], before.history[1].index
    assert lacking is not None
    with caplog.at_level(logging.WARNING):
        warehouse = _uploaded(sound, server, bucket)
        server.client.put_object(
            Bucket=bucket, Key=f"some/prefix/{damaged.key}", Body=bytes(damaged.size)
        )
        server.client.delete_object(Bucket=bucket, Key=f"some/prefix/{lacking.key}")
        report = repair(warehouse.backing)
    assert "it is damaged" in _problems(report)[damaged.key]
    snapshot = warehouse.snapshot()
    assert [one.file for one in snapshot.history] == [one.file for one in before.history[1:]]
    warehouse.load(
        Source(FolderStore(sound / "s")),
        warehouse.survey(Source(FolderStore(sound / "s"))).pending,
        MemorySink(),
    )
    assert repair(warehouse.backing).findings == []


def test_a_store_that_cannot_be_reached_lacks_nothing(sound: Path, server: BucketServer) -> None:
    warehouse = _uploaded(sound, server, server.bucket())
    snapshot = _snapshot(sound).number

    def repair_anew() -> Repair:
        """As a process does that knows nothing of the log yet."""
        return repair(Backing(warehouse.backing.store, warehouse.cache))

    assert repair_anew().findings == []
    server.door.requests.clear()
    assert repair_anew().findings == []
    requests = list(server.door.requests)
    try:
        for place in range(len(requests)):
            server.door.requests.clear()
            server.door.on_request = _failing(server, place)
            with pytest.raises(OSError, match=r"SlowDown|503"):
                repair_anew()
    finally:
        server.door.on_request = lambda _: None
    report = repair_anew()
    assert (report.findings, report.snapshot) == ([], snapshot)


def _failing(server: BucketServer, place: int) -> Callable[[Request], str]:
    def on_request(_: Request) -> str:
        return "503 SlowDown" if len(server.door.requests) == place + 1 else PASS

    return on_request
