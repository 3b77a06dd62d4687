"""What a machine keeps of a table's log saves requests, and is not believed where it is not so."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from exporters.lake.log.log_files import commit_bytes
from exporters.lake.tables import LakeTable
from tests.exporters.lake.log.log_kit import KEY, named, names, new_log
from tests.s3_kit import BucketServer, bucket_server
from transforms.errors import IntegrityError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import LostRaceError, Store


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """A store with the log of a table, which has one file."""
    store = FolderStore(tmp_path / "archive")
    new_log(store)
    _commit(_log(store, tmp_path), 1)
    return store


def _log(store: Store, folder: Path) -> LakeTable:
    """The table to a process that has just been started on a machine."""
    log = LakeTable(store, KEY, folder / "cache")
    log.look()
    return log


def _commit(log: LakeTable, number: int) -> None:
    log.commit(log.version(), [named(number)])


def _kept(folder: Path) -> Path:
    return folder / "cache" / "orders.json"


def test_who_committed_last_asks_twice_for_the_next_commit(
    server: BucketServer, tmp_path: Path
) -> None:
    with server.store() as store:
        new_log(store)
        for number in range(1, 9):
            server.door.requests.clear()
            _commit(_log(store, tmp_path), number)
            asked = [request.partition(" ")[0] for request in server.door.requests]
            if number > 1 and not any("checkpoint" in one for one in server.door.requests):
                assert asked == ["GET", "PUT"]
        assert names(LakeTable(store, KEY)) == [named(n).name for n in range(1, 9)]


def test_who_has_a_listing_of_the_lake_asks_no_more_of_a_table(
    server: BucketServer, tmp_path: Path
) -> None:
    with server.store() as store:
        new_log(store)
        _commit(_log(store, tmp_path), 1)
        for number in range(2, 20):
            log = _log(store, tmp_path)
            log.look(store.list(f"{KEY}/"))
            server.door.requests.clear()
            _commit(log, number)
            asked = [request.partition(" ")[0] for request in server.door.requests]
            is_sum = any("checkpoint" in one for one in server.door.requests)
            assert asked == (["PUT", "GET", "PUT", "PUT"] if is_sum else ["PUT"])
        assert names(_log(store, tmp_path)) == [named(n).name for n in range(1, 20)]


def test_what_is_expected_is_what_the_log_says(store: FolderStore, tmp_path: Path) -> None:
    log = _log(store, tmp_path)
    for number in range(2, 5):
        _commit(log, number)
        assert log.version() == _log(store, tmp_path).version() == LakeTable(store, KEY).version()
    version = log.version()
    log.commit(version, [named(7)], version.files[:2])
    assert _log(store, tmp_path).version() == LakeTable(store, KEY).version()
    assert names(log) == [named(n).name for n in (3, 4, 7)]


def test_a_commit_that_comes_after_anothers_is_refused_and_then_follows_it(
    store: FolderStore, tmp_path: Path
) -> None:
    log = _log(store, tmp_path)
    assert log.version().number == 1
    _commit(_log(store, tmp_path / "other"), 2)
    with pytest.raises(LostRaceError):
        _commit(log, 3)
    _commit(log, 3)
    assert names(log) == [named(n).name for n in (1, 2, 3)]


def test_a_commit_of_another_program_is_seen(store: FolderStore, tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "archive" / KEY)
    added = AddAction("theirs.parquet", 1, {}, 0, True, '{"numRecords":1}')
    once = CommitProperties(max_commit_retries=0)
    table.create_write_transaction([added], "append", table.schema(), commit_properties=once)
    with pytest.raises(IntegrityError, match=r"theirs\.parquet, which Strata did not write"):
        _log(store, tmp_path).version()


def _remove(log: Path, _kept: Path) -> None:
    shutil.rmtree(log)


def _restore_backup(log: Path, _kept: Path) -> None:
    log.joinpath(f"{1:020}.json").unlink()


def _replace(log: Path, _kept: Path) -> None:
    newest = log / f"{1:020}.json"
    newest.unlink()
    added = {"add": named(9).added(0)}
    newest.write_bytes(commit_bytes(0, [added]))


def _damage(_log: Path, kept: Path) -> None:
    kept.write_bytes(kept.read_bytes().replace(b'"number": 1', b'"number": 0'))


def _cut(_log: Path, kept: Path) -> None:
    kept.write_bytes(kept.read_bytes()[:40])


@pytest.mark.parametrize("change", [_remove, _restore_backup, _replace, _damage, _cut])
def test_what_is_kept_is_not_believed_where_the_log_is_another(
    store: FolderStore, tmp_path: Path, change: Callable[[Path, Path], None]
) -> None:
    change(tmp_path / "archive" / KEY / "_delta_log", _kept(tmp_path))
    assert _log(store, tmp_path).version() == LakeTable(store, KEY).version()
