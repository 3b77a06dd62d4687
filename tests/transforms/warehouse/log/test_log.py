"""The log over a folder and over a bucket: rivals, lost answers, old copies, unfit services."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rclone_kit import rclone_server
from tests.s3_kit import BucketServer, bucket_and_key, bucket_server
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import ObjectInfo
from transforms.segments.quarantine import QuarantinedFile
from transforms.stores.folder_store import FolderStore
from transforms.stores.s3 import S3Store
from transforms.stores.store import S3Options, Store
from transforms.warehouse.log.log import (
    Log,
    settled_snapshots,
    snapshot_key,
)
from transforms.warehouse.log.snapshot import Snapshot

WRITERS = 8
COMMITS = 3

Opening = Callable[[], Store]
"""Opens the same place once more, as another process would."""


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(params=["folder", "bucket"])
def opening(
    request: pytest.FixtureRequest, server: BucketServer, tmp_path: Path
) -> Iterator[Opening]:
    if request.param == "folder":
        yield lambda: FolderStore(tmp_path / "warehouse")
        return
    bucket, opened = server.bucket(), list[S3Store]()

    def again() -> Store:
        opened.append(S3Store(bucket, "some/prefix", server.options()))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


def adding(name: str) -> Callable[[Snapshot], Snapshot]:
    """A change that anybody can make and see: one more refused file, by name."""
    refused = QuarantinedFile(ObjectInfo(name, 1, ""), "it is bad")
    return lambda newest: newest.quarantined([refused], ())


def names(snapshot: Snapshot) -> list[str]:
    return [refused.key for refused in snapshot.quarantine]


def write(store: Store, writer: int) -> None:
    """Commit some changes, each with a name of its own."""
    log = Log(store)
    log.begin()
    for number in range(COMMITS):
        log.commit(adding(f"{writer}-{number}"))


def write_in_process(
    place: str | Path, options: S3Options, environment: dict[str, str], n: int
) -> None:
    """`write` in a process of its own, which was forked with any environment."""
    os.environ.update(environment)
    if isinstance(place, Path):
        write(FolderStore(place), n)
        return
    store = S3Store(place, "some/prefix", options)
    write(store, n)
    store.close()


def assert_all_are_there_once(log: Log) -> None:
    """Every change of every writer is there, each in a snapshot of its own, in one chain."""
    everything = sorted(f"{writer}-{n}" for writer in range(WRITERS) for n in range(COMMITS))
    assert names(log.newest()) == everything
    assert log.numbers() == list(range(1, 2 + WRITERS * COMMITS))
    before = set[str]()
    for number in log.numbers():
        snapshot = log.read(number)
        assert len(set(names(snapshot)) - before) == (number > 1)
        before = set(names(snapshot))


def test_of_threads_that_commit_at_once_every_change_is_there_once(opening: Opening) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, opening(), writer) for writer in range(WRITERS)]
        for done in writing:
            done.result()
    assert_all_are_there_once(Log(opening()))


def test_threads_may_share_a_log(tmp_path: Path) -> None:
    log = Log(FolderStore(tmp_path / "warehouse"))
    log.begin()
    changes = [adding(f"{writer}-{n}") for writer in range(WRITERS) for n in range(COMMITS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(log.commit, changes))
    assert_all_are_there_once(Log(FolderStore(tmp_path / "warehouse")))


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_of_processes_that_commit_at_once_every_change_is_there_once(
    server: BucketServer, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "warehouse" if kind == "folder" else server.bucket()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["transforms.stores.s3", "transforms.warehouse.log.log"])
    credentials = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    shared = (place, server.options(), credentials)
    with context.Pool(WRITERS) as pool:
        pool.starmap(write_in_process, [(*shared, n) for n in range(WRITERS)], chunksize=1)
    if isinstance(place, Path):
        assert_all_are_there_once(Log(FolderStore(place)))
        return
    store = S3Store(place, "some/prefix", server.options())
    assert_all_are_there_once(Log(store))
    store.close()


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_commit_whose_answer_got_lost_counts_once(server: BucketServer, attempts: int) -> None:
    with server.store(attempts=attempts) as store:
        log = Log(store)
        log.begin()
        server.door.faults = [("PUT", "lose the answer")]
        if attempts == 1:
            with pytest.raises(ConnectionError):
                log.commit(adding("a"))
        assert names(log.commit(adding("a"))) == ["a"]
        assert server.door.faults == []
        assert names(Log(store).newest()) == ["a"]
        assert log.numbers() == [1, 2]
        assert log.commit(adding("b")).number == 3


def test_a_commit_that_never_arrived_is_none(server: BucketServer) -> None:
    with server.store() as store:
        log = Log(store)
        log.begin()
        server.door.faults = [("PUT", "503 SlowDown")]
        with pytest.raises(ConnectionError):
            log.commit(adding("a"))
        assert log.numbers() == [1]
        assert names(log.commit(adding("a"))) == ["a"]


def test_a_change_is_applied_to_what_a_rival_made(opening: Opening) -> None:
    log, rival = Log(opening()), Log(opening())
    log.begin()
    seen: list[list[str]] = []

    def change(newest: Snapshot) -> Snapshot:
        seen.append(names(newest))
        if len(seen) == 1:
            rival.commit(adding("theirs"))
        return adding("ours")(newest)

    assert names(log.commit(change)) == ["ours", "theirs"]
    assert seen == [[], ["theirs"]]


def test_no_change_makes_no_snapshot(opening: Opening) -> None:
    log = Log(opening())
    first = log.begin()
    assert log.commit(lambda newest: newest) == first
    assert log.numbers() == [1]


def test_a_reader_finds_what_came_while_it_slept(opening: Opening) -> None:
    reader, writer = Log(opening()), Log(opening())
    writer.begin()
    assert names(reader.newest()) == []
    writer.commit(adding("a"))
    assert names(reader.newest()) == ["a"]
    for name in "bcd":
        writer.commit(adding(name))
    for number in (1, 2, 3, 4):  # a sweep went on, too
        opening().delete(snapshot_key(number))
    assert names(reader.newest()) == ["a", "b", "c", "d"]


def test_a_step_goes_by_one_look_and_by_what_it_commits(tmp_path: Path) -> None:
    store = _CountingStore(tmp_path / "log")
    log, rival = Log(store), Log(store)
    log.begin()
    with log.one_look():
        assert names(log.newest()) == []
        rival.commit(adding("a"))
        count = store.heads
        with log.one_look():
            assert names(log.newest()) == []
        assert store.heads == count
        assert names(log.commit(adding("b"))) == ["a", "b"]  # it lost the race, and looked again
        assert names(log.newest()) == ["a", "b"]
    rival.commit(adding("c"))
    assert names(log.newest()) == ["a", "b", "c"]


class _CountingStore(FolderStore):
    heads = 0

    def head(self, key: str) -> ObjectInfo | None:
        self.heads += 1
        return super().head(key)


def test_a_renamed_snapshot_is_refused(opening: Opening) -> None:
    store = opening()
    Log(store).begin()
    data = store.read(snapshot_key(1))
    store.put_if_absent(
        snapshot_key(2),
        data,
        content_type="application/json",
        sha256=hashlib.sha256(data).hexdigest(),
        immutable=True,
    )
    with pytest.raises(IntegrityError, match="says that it is snapshot 1"):
        Log(store).newest()


def test_a_clock_that_goes_back_makes_no_snapshot_older(tmp_path: Path) -> None:
    log = Log(FolderStore(tmp_path / "warehouse"))
    first = log.begin()
    ahead = replace(first, number=2, time=first.time + 1e6)
    assert log.create(ahead)
    assert log.commit(adding("a")).time == first.time + 1e6


def test_a_store_that_overwrites_keeps_no_log(tmp_path: Path) -> None:
    (tmp_path / "service" / "bucket").mkdir(parents=True)
    with rclone_server(tmp_path / "service") as url:
        store = S3Store("bucket", "w", S3Options(url))
        with pytest.raises(ConfigError, match="If-None-Match"):
            Log(store).begin()
        assert list(store.list()) == []


def test_who_may_not_list_a_bucket_does_not_take_it_for_an_empty_one(server: BucketServer) -> None:
    with server.store() as store:
        server.door.faults = [("GET", "403 AccessDenied")]
        with pytest.raises(ConfigError, match="refused access"):
            Log(store).begin()
        assert list(store.list()) == []


def test_a_folder_that_is_not_there_has_no_log_and_is_not_made(tmp_path: Path) -> None:
    log = Log(FolderStore(tmp_path / "warehouse"))
    assert log.newest() == Snapshot()
    assert log.numbers() == []
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_lies_damaged_in_a_bucket_is_for_repair(server: BucketServer) -> None:
    with server.store(attempts=3) as store:
        Log(store).begin()
        bucket, key = bucket_and_key(store, snapshot_key(1))
        held = server.client.get_object(Bucket=bucket, Key=key)
        damaged = held["Body"].read().replace(b"1", b"2", 1)
        server.client.put_object(Bucket=bucket, Key=key, Body=damaged, Metadata=held["Metadata"])
        with pytest.raises(IntegrityError, match="run strata repair"):
            Log(store).newest()


def _aged(folder: Path, numbers: range, seconds: float) -> None:
    """Let snapshots have been written so long ago."""
    for number in numbers:
        path = folder / snapshot_key(number)
        written = path.stat().st_mtime - seconds
        os.utime(path, (written, written))


def test_snapshots_that_were_followed_long_ago_are_settled(tmp_path: Path) -> None:
    log = Log(FolderStore(tmp_path))
    for number in range(10):
        log.commit(adding(f"{number}"))
    folder = FolderStore(tmp_path)
    now = folder.now()
    assert settled_snapshots(folder.list(), now - 600) == []
    # The last one of these was followed by one that is new: somebody may be about to follow it.
    _aged(tmp_path, range(1, 9), 660)
    assert settled_snapshots(folder.list(), now - 600) == [*range(1, 8)]
