"""What is wrong with a table's log, or the way to it, is said in sentences that say what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporters.lake.tables import LakeTable
from tests.exporters.lake.log.log_kit import KEY, commit, named, names, new_log, newest
from tests.fault_proxy import LOSE_THE_ANSWER, RESET
from tests.s3_kit import BucketServer, bucket_and_key, bucket_server
from transforms.errors import ConfigError, IntegrityError
from transforms.stores.folder_store import FolderStore
from transforms.stores.s3 import S3Store

COMMITS = 13
"""Enough for a checkpoint (at 10), and some commits after it."""
DAMAGED = (
    "is damaged: its keeper should put its folder _delta_log back from a backup, or remove it: "
    "strata publish makes it anew then"
)


def _json(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def _checkpoint(log: Path) -> Path:
    (found,) = log.glob("*.checkpoint.parquet")
    return found


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "the newest commit is cut short": lambda log: _truncate(_json(log, COMMITS)),
    "a commit is cut short": lambda log: _truncate(_json(log, 12)),
    "a commit is something else": lambda log: _json(log, 12).write_text('{"add":{"path":1}}\n'),
    "a commit is missing": lambda log: _json(log, 12).unlink(),
    "the checkpoint is missing": lambda log: _checkpoint(log).unlink(),
    "the checkpoint is cut short": lambda log: _truncate(_checkpoint(log)),
    "the hint names another checkpoint": lambda log: log.joinpath("_last_checkpoint").write_text(
        '{"version":700,"size":1}'
    ),
    "the hint is cut short": lambda log: log.joinpath("_last_checkpoint").write_text('{"ver'),
    "a commit names a file that Strata did not write": lambda log: _json(
        log, COMMITS + 1
    ).write_text('{"add":{"path":"theirs.parquet"}}\n'),
    "a commit names blocks twice": lambda log: _json(log, COMMITS + 1).write_text(
        '{"add":{"path":"1-2.0123456789abcdef.parquet"}}\n'
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    commit(new_log(FolderStore(folder)), *range(1, COMMITS + 1))
    return folder


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_log_is_named_with_what_to_do(
    sound: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    shutil.copytree(sound, tmp_path / "lake")
    damage(tmp_path / "lake" / KEY / "_delta_log")
    log = LakeTable(FolderStore(tmp_path / "lake"), KEY)
    with pytest.raises(IntegrityError) as error:
        newest(log)
    assert f"the log of {tmp_path / 'lake' / KEY} {DAMAGED}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


@pytest.fixture
def store(server: BucketServer) -> Iterator[S3Store]:
    with server.store() as made:
        yield made
    server.door.faults.clear()


def test_wrong_keys_are_a_matter_of_settings(
    server: BucketServer, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_log(store)
    bucket, prefix = bucket_and_key(store, "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    stranger = S3Store(bucket, prefix.rstrip("/"), server.options())
    with pytest.raises(ConfigError, match=r"refused access to .*: check the credentials"):
        LakeTable(stranger, KEY).look()
    stranger.close()


def test_a_bucket_that_is_not_there_is_a_matter_of_settings(server: BucketServer) -> None:
    nowhere = S3Store("no-such-bucket", "prefix", server.options())
    with pytest.raises(ConfigError, match="there is no bucket 'no-such-bucket'"):
        LakeTable(nowhere, KEY).look()
    nowhere.close()


def test_a_log_that_may_be_read_and_not_written_says_so(
    server: BucketServer, store: S3Store
) -> None:
    log = new_log(store)
    server.door.faults[:] = [("PUT", "403 AccessDenied")]
    with pytest.raises(ConfigError, match="check the credentials and the policy") as error:
        log.commit(newest(log), [named(1)])
    assert "\n" not in str(error.value)


def test_a_server_that_is_away_is_worth_another_try(server: BucketServer, store: S3Store) -> None:
    log = new_log(store)
    read = newest(log)
    with server.away():
        for asked in (lambda: newest(log), lambda: log.commit(read, [named(1)])):
            with pytest.raises(ConnectionError, match="overloaded or failing") as error:
                asked()
            assert "\n" not in str(error.value)
    log.commit(read, [named(1)])
    assert names(log) == [named(1).name]


def test_a_connection_that_breaks_while_a_commit_is_sent_is_worth_another_try(
    server: BucketServer, store: S3Store
) -> None:
    log = new_log(store)
    server.door.faults[:] = [("PUT", RESET)]
    with pytest.raises(ConnectionError, match="check the network, the endpoint"):
        log.commit(newest(log), [named(1)])
    commit(log, 1)
    assert names(log) == [named(1).name]


def test_a_commit_whose_answer_was_lost_is_found_by_who_looks_again(
    server: BucketServer, store: S3Store
) -> None:
    log = new_log(store)
    server.door.faults[:] = [("PUT", LOSE_THE_ANSWER)]
    with pytest.raises(ConnectionError, match="no answer from"):
        log.commit(newest(log), [named(1)])
    assert names(log) == [named(1).name]
