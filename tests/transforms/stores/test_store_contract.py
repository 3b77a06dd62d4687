"""What every store promises, asked of a folder and of a bucket."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.s3_kit import BucketServer, bucket_server
from transforms.errors import ConfigError, ConflictError, IntegrityError
from transforms.objects import ObjectInfo
from transforms.stores.folder_store import FolderStore
from transforms.stores.s3 import S3Store
from transforms.stores.store import (
    LostRaceError,
    PutResult,
    Store,
    asked_together,
    checked_key,
    object_sha256,
    versioned,
)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(scope="module")
def bucket(server: BucketServer) -> Iterator[S3Store]:
    with server.store() as store:
        yield store


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield FolderStore(tmp_path / "store")
        return
    bucket: S3Store = request.getfixturevalue("bucket")
    yield bucket
    request.getfixturevalue("server").empty(bucket)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(store: Store, key: str, content: bytes | Path) -> PutResult:
    data = content if isinstance(content, bytes) else content.read_bytes()
    return store.put_if_absent(
        key, content, content_type="application/zip", sha256=sha256(data), immutable=True
    )


def swap(store: Store, key: str, content: bytes | Path, version: str | None) -> str:
    return store.put_if_match(key, content, version, "application/json")


def all_at_once(count: int, work: Callable[[int], object]) -> list[object]:
    """Run `work` in `count` threads that start together; exceptions are results."""
    gate = threading.Barrier(count)

    def run(number: int) -> object:
        gate.wait()
        try:
            return work(number)
        except (ConflictError, LostRaceError) as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_services_are_asked_side_by_side_and_answers_keep_their_order(bucket: S3Store) -> None:
    together = threading.Barrier(4, timeout=30)

    def ask(number: int) -> int:
        together.wait()
        return -number

    assert list(asked_together(bucket, ask, range(4), 4)) == [0, -1, -2, -3]


def test_a_folder_is_asked_by_who_asks(tmp_path: Path) -> None:
    threads = asked_together(FolderStore(tmp_path), lambda _: threading.get_ident(), range(4))
    assert set(threads) == {threading.get_ident()}


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_what_one_question_raises_is_raised(kind: str, bucket: S3Store, tmp_path: Path) -> None:
    store = bucket if kind == "s3" else FolderStore(tmp_path)
    with pytest.raises(FileNotFoundError):
        list(asked_together(store, store.read, ["nothing/there"]))


def test_the_time_is_that_of_the_clock_which_objects_are_written_by(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3 * 24 * 3600)  # this machine's is wrong
    put(store, "chain/before", b"1")
    between = store.now()
    put(store, "chain/after", b"2")
    before, after = store.head("chain/before"), store.head("chain/after")
    assert before is not None
    assert after is not None
    assert int(before.modified) <= between < int(after.modified) + 1  # services say whole seconds


def test_a_created_object_is_there_whole(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(b"0123456789")
    assert put(store, "chain/orders/x.zip", file) is PutResult.CREATED
    held = store.head("chain/orders/x.zip")
    assert held is not None
    assert (held.key, held.size) == ("chain/orders/x.zip", 10)
    assert store.read("chain/orders/x.zip") == b"0123456789"
    assert object_sha256(store, "chain/orders/x.zip") == sha256(b"0123456789")


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, None, b"0123456789"),
        (4, None, b"456789"),
        (4, 3, b"456"),
        (8, 9, b"89"),
        (0, 0, b""),
        (10, None, b""),
        (10, 5, b""),
        (99, 1, b""),
    ],
)
def test_a_range_holds_the_bytes_that_are_there(
    store: Store, start: int, length: int | None, expected: bytes
) -> None:
    put(store, "x", b"0123456789")
    assert store.read("x", start, length) == expected


def test_an_empty_object_is_an_object(store: Store, tmp_path: Path) -> None:
    assert put(store, "empty", b"") is PutResult.CREATED
    assert put(store, "empty", b"") is PutResult.IDENTICAL
    assert store.read("empty") == b""
    store.fetch("empty", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b""


def test_what_is_absent_is_none_or_not_found(store: Store, tmp_path: Path) -> None:
    put(store, "folder/there", b"x")
    assert store.head("absent") is None
    assert store.head("folder") is None
    assert store.head("folder/there/below") is None
    occupied = IntegrityError if isinstance(store, FolderStore) else FileNotFoundError
    for key, error in (("absent", FileNotFoundError), ("folder", occupied)):
        with pytest.raises(error):
            store.read(key)
        with pytest.raises(error):
            store.fetch(key, tmp_path / "copy")
    assert list(tmp_path.glob("copy*")) == []


@pytest.mark.parametrize(
    "key", ["a" * 256, f"a/{'b' * 300}/c", "é" * 200, "/".join(["d" * 200] * 30), "e" * 1025]
)
def test_what_no_object_can_be_named_is_absent(store: Store, key: str) -> None:
    assert store.head(key) is None


def test_the_same_bytes_again_are_identical_and_change_nothing(store: Store) -> None:
    put(store, "x", b"bytes")
    before = store.head("x")
    assert put(store, "x", b"bytes") is PutResult.IDENTICAL
    assert store.head("x") == before


@pytest.mark.parametrize("other", [b"BYTES", b"longer bytes", b""])
def test_other_bytes_are_a_conflict_that_names_both_hashes(store: Store, other: bytes) -> None:
    put(store, "x", b"bytes")
    with pytest.raises(ConflictError) as refused:
        put(store, "x", other)
    for text in (store.describe("x"), sha256(b"bytes"), sha256(other)):
        assert text in str(refused.value)
    assert store.read("x") == b"bytes"


def test_the_place_is_named_in_full(store: Store, tmp_path: Path) -> None:
    assert store.describe("a/b").removesuffix("/a/b") == store.describe().removesuffix("/")
    assert store.describe("a/b").startswith((str(tmp_path), "s3://"))


def test_of_many_writers_exactly_one_creates(store: Store) -> None:
    results = all_at_once(8, lambda _: put(store, "contested", b"the same bytes"))
    assert sorted(str(result) for result in results) == (
        ["PutResult.CREATED"] + ["PutResult.IDENTICAL"] * 7
    )


def test_of_many_writers_with_other_bytes_one_wins_and_the_rest_are_told(store: Store) -> None:
    results = all_at_once(8, lambda number: put(store, "contested", f"bytes {number}".encode()))
    assert results.count(PutResult.CREATED) == 1
    assert sum(isinstance(result, ConflictError) for result in results) == 7
    winner = results.index(PutResult.CREATED)
    assert store.read("contested") == f"bytes {winner}".encode()


def test_a_swap_needs_the_version_that_is_there(store: Store, tmp_path: Path) -> None:
    first = swap(store, "index", b"1", None)
    file = tmp_path / "two"
    file.write_bytes(b"2")
    second = swap(store, "index", file, first)
    for stale in (None, first, "no version"):
        with pytest.raises(LostRaceError):
            swap(store, "index", b"3", stale)
    held = store.head("index")
    assert held is not None
    assert held.version == second
    assert store.read("index") == b"2"


def test_what_is_read_with_its_version_can_be_swapped(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("x")
    assert versioned(store, "x") is None
    swap(store, "x", b"one", None)
    data, version = store.get("x")
    assert data == b"one"
    swap(store, "x", b"two", version)
    with pytest.raises(LostRaceError):
        swap(store, "x", b"three", version)
    assert versioned(store, "x") == store.get("x") == (b"two", versions(store, "x"))


def versions(store: Store, key: str) -> str:
    """The version by the other way to ask."""
    info = store.head(key)
    assert info is not None
    return info.version


def test_a_swap_of_what_is_absent_is_a_lost_race(store: Store) -> None:
    with pytest.raises(LostRaceError):
        swap(store, "index", b"1", "a version")
    assert store.head("index") is None


def test_every_swap_gives_a_new_version_however_fast_they_follow(store: Store) -> None:
    versions = [swap(store, "index", b"0", None)]
    for number in range(1, 10):
        versions.append(swap(store, "index", str(number).encode(), versions[-1]))
    assert len(set(versions)) == 10


def test_no_swap_of_many_is_lost(store: Store) -> None:
    def add(number: int) -> int:
        lost = 0
        while True:
            held = store.head("set")
            lines = store.read("set").split() if held else []
            try:
                content = b"\n".join([*lines, str(number).encode()])
                swap(store, "set", content, held.version if held else None)
                return lost
            except LostRaceError:
                lost += 1

    all_at_once(6, add)
    assert sorted(store.read("set").split()) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_created_object_can_be_swapped_and_then_compared(store: Store) -> None:
    put(store, "x", b"old")
    held = store.head("x")
    assert held is not None
    swap(store, "x", b"new", held.version)
    assert put(store, "x", b"new") is PutResult.IDENTICAL
    with pytest.raises(ConflictError):
        put(store, "x", b"old")


def test_a_list_shows_every_object_once_and_nothing_else(store: Store) -> None:
    keys = ["a-b", "a/b/c", "a/b-c", "a.b", "a/é", "ab", "b", ".hidden/x"]
    for key in keys:
        put(store, key, key.encode())
    listed = list(store.list())
    assert sorted(info.key for info in listed) == sorted(keys)
    assert sorted(listed) == [store.head(key) for key in sorted(keys)]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a", ["a-b", "a/b/c", "a/d", "ab"]),
        ("a/", ["a/b/c", "a/d"]),
        ("a/b", ["a/b/c"]),
        ("a/b/c", ["a/b/c"]),
        ("a/b/c/", []),
        ("z", []),
    ],
)
def test_a_prefix_narrows_the_list(store: Store, prefix: str, expected: list[str]) -> None:
    for key in ("a-b", "a/b/c", "a/d", "ab", "b"):
        put(store, key, b"")
    assert sorted(info.key for info in store.list(prefix)) == expected


def test_a_download_takes_the_place_of_an_older_file(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(b"an older and longer file")
    put(store, "x", b"new")
    store.fetch("x", copy)
    assert copy.read_bytes() == b"new"
    assert list(tmp_path.glob("copy?*")) == []


KEYS_OUTSIDE = ["", "/etc/passwd", "..", "a/../../b", "a//b", "./a", "a/", "a\\b", "a\0b", "a\nb"]
KEYS_OUTSIDE += [".strata-scratch", ".strata-scratch/lock"]


@pytest.mark.parametrize("key", KEYS_OUTSIDE)
def test_a_key_cannot_leave_the_store(store: Store, key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a plain key"):
        put(store, key, b"x")
    with pytest.raises(ConfigError, match="not a plain key"):
        store.read(key)
    with pytest.raises(ConfigError, match="not a plain key"):
        swap(store, key, b"x", None)
    with pytest.raises(ConfigError, match="not a plain key"):
        store.head(key)


@given(st.text(alphabet="ab./\\\n~é", min_size=1, max_size=9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_accepted_key_names_a_file_below_the_root(tmp_path: Path, key: str) -> None:
    try:
        accepted = checked_key(key)
    except ConfigError:
        return
    target = (tmp_path / accepted).resolve()
    assert target.is_relative_to(tmp_path.resolve())
    assert target.relative_to(tmp_path.resolve()).as_posix() == key


def test_versions_are_the_same_however_one_asks(store: Store) -> None:
    version = swap(store, "x", b"1", None)
    assert [*store.list()] == [store.head("x")] == [ObjectInfo("x", 1, version)]


def test_content_that_is_not_what_was_announced_is_not_stored_in_a_folder(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    with pytest.raises(IntegrityError, match="not stored"):
        store.put_if_absent(
            "x", b"other", content_type="", sha256=sha256(b"announced"), immutable=True
        )
    with pytest.raises(IntegrityError, match="not stored"):
        store.put_if_match("x", b"other", None, "", sha256=sha256(b"announced"))
    assert list(store.list()) == []


def test_a_deleted_object_is_gone_and_may_be_deleted_again(store: Store) -> None:
    put(store, "a/x", b"1")
    store.delete("a/x")
    store.delete("a/x")
    store.delete("b/y")
    assert store.head("a/x") is None
    assert put(store, "a/x", b"2") is PutResult.CREATED


def test_an_object_says_when_it_was_written(store: Store) -> None:
    before = time.time()
    put(store, "x", b"1")
    (listed,) = store.list()
    asked = store.head("x")
    assert asked is not None
    assert abs(asked.modified - listed.modified) < 1
    assert before - 2 < listed.modified < time.time() + 2


def test_a_file_may_be_taken_as_the_object(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    for expected in (PutResult.CREATED, PutResult.IDENTICAL):
        file.write_bytes(b"1")
        result = store.put_if_absent(
            "x", file, content_type="", sha256=sha256(b"1"), immutable=True, take=True
        )
        assert result is expected
    file.write_bytes(b"3")
    assert store.read("x") == b"1"
    file.write_bytes(b"2")
    with pytest.raises(ConflictError):
        store.put_if_absent(
            "x", file, content_type="", sha256=sha256(b"2"), immutable=True, take=True
        )
