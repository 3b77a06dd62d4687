"""Bits that flip on the way to a bucket, on the way from it, and in it; two writers of one key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fault_proxy import CUT_THE_ANSWER, FLIP_THE_ANSWER, FLIP_THE_REQUEST
from tests.s3_kit import BucketServer, bucket_and_key, bucket_server
from transforms.errors import IntegrityError
from transforms.stores.s3 import S3Store
from transforms.stores.store import CHUNK_BYTES, DamagedObjectError, PutResult, object_sha256

LARGE = bytes(CHUNK_BYTES) + b"end"

Read = Callable[[S3Store, Path], bytes]


def _fetched(store: S3Store, path: Path) -> bytes:
    store.fetch("x", path)
    return path.read_bytes()


WHOLE_READS: list[Read] = [
    lambda store, _: store.read("x"),
    lambda store, _: store.read("x", 0, 1_000_000),
    lambda store, _: store.read("x", 0, 2000),
    _fetched,
]


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(scope="module")
def bucket(server: BucketServer) -> Iterator[S3Store]:
    with server.store(attempts=3) as store:
        yield store


@pytest.fixture
def store(server: BucketServer, bucket: S3Store) -> Iterator[S3Store]:
    yield bucket
    server.door.on_request = lambda _: None
    assert server.door.faults == []
    server.empty(bucket)


def put(store: S3Store, key: str, content: bytes | Path) -> PutResult:
    data = content if isinstance(content, bytes) else content.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return store.put_if_absent(key, content, content_type="", sha256=digest, immutable=True)


def lie(server: BucketServer, store: S3Store, key: str, content: bytes, says: bytes) -> None:
    """Let an object lie there that says of itself that it is other bytes."""
    bucket, whole = bucket_and_key(store, key)
    server.client.put_object(
        Bucket=bucket,
        Key=whole,
        Body=content,
        Metadata={"sha256": hashlib.sha256(says).hexdigest()},
    )


@pytest.mark.parametrize("read", WHOLE_READS)
@pytest.mark.parametrize("fault", [FLIP_THE_ANSWER, CUT_THE_ANSWER])
def test_a_whole_read_that_arrives_damaged_is_asked_for_again(
    server: BucketServer, store: S3Store, tmp_path: Path, read: Read, fault: str
) -> None:
    put(store, "x", bytes(2000))
    server.door.faults += [("GET", fault)] * 2
    assert read(store, tmp_path / "copy") == bytes(2000)


@pytest.mark.parametrize("read", WHOLE_READS)
def test_a_whole_object_that_lies_damaged_in_the_store_is_said_to_be(
    server: BucketServer, store: S3Store, tmp_path: Path, read: Read
) -> None:
    lie(server, store, "x", bytes(2000), bytes(1999) + b"1")
    with pytest.raises(IntegrityError, match=r"s3://.*/x did not match .* 3 times.* lies damaged"):
        read(store, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_who_reads_what_lies_damaged_gets_its_bytes_with_the_error(
    server: BucketServer, store: S3Store
) -> None:
    lie(server, store, "x", b"damagee", b"damaged")
    with pytest.raises(DamagedObjectError) as damaged:
        store.read("x")
    assert damaged.value.data == b"damagee"


def test_what_says_nothing_of_itself_is_read_as_it_is(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    bucket, whole = bucket_and_key(store, "x")
    server.client.put_object(Bucket=bucket, Key=whole, Body=b"a segment")
    assert store.read("x", 0, 100) == store.read("x") == b"a segment"
    store.fetch("x", tmp_path / "copy")
    assert object_sha256(store, "x") == hashlib.sha256(b"a segment").hexdigest()


def test_a_large_download_is_held_against_the_whole(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    put(store, "x", LARGE)
    server.door.faults += [("GET", FLIP_THE_ANSWER), ("GET", CUT_THE_ANSWER)]
    store.fetch("x", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == LARGE
    lie(server, store, "x", LARGE[:-1] + b"?", LARGE)
    with pytest.raises(IntegrityError, match="did not match"):
        store.fetch("x", tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("content", [b"small", LARGE])
def test_the_hash_of_an_object_is_that_of_what_lies_there(
    server: BucketServer, store: S3Store, content: bytes
) -> None:
    put(store, "x", content)
    digest = hashlib.sha256(content).hexdigest()
    server.door.faults.append(("GET", FLIP_THE_ANSWER))
    assert object_sha256(store, "x") == digest
    lie(server, store, "x", b"?" + content[1:], content)
    assert object_sha256(store, "x") == hashlib.sha256(b"?" + content[1:]).hexdigest()


def test_a_replacement_mends_what_lies_damaged(server: BucketServer, store: S3Store) -> None:
    lie(server, store, "x", b"damagee", b"damaged")
    held = store.head("x")
    assert held is not None
    store.put_if_match("x", b"sound", held.version, "")
    assert store.read("x") == b"sound"


def test_a_hash_that_is_another_each_time_is_damage_on_the_way(
    server: BucketServer, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "x", LARGE)
    digests = iter(("a", "b", "c", "d"))
    monkeypatch.setattr("transforms.stores.store._arriving_sha256", lambda *_: next(digests))
    with pytest.raises(IntegrityError, match=r"other bytes each time.*on the way"):
        object_sha256(store, "x")


def test_an_upload_that_arrives_damaged_is_not_there(server: BucketServer, store: S3Store) -> None:
    server.door.faults.append(("PUT", FLIP_THE_REQUEST))
    with pytest.raises(ConnectionError, match=r"s3://.*/x was not written.*damaged.*proxy"):
        put(store, "x", bytes(2000))
    assert store.head("x") is None
    assert put(store, "x", bytes(2000)) is PutResult.CREATED


def test_a_listing_that_arrives_damaged_is_asked_for_again(
    server: BucketServer, store: S3Store
) -> None:
    put(store, "x", b"1")
    server.door.faults += [("GET", CUT_THE_ANSWER)] * 2
    assert [info.key for info in store.list()] == ["x"]


def test_a_file_that_is_not_what_was_announced_is_no_damage_of_the_network(
    store: S3Store, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"other")
    digest = hashlib.sha256(b"announced").hexdigest()
    with pytest.raises(IntegrityError, match=rf"{file} hashes to .* as announced"):
        store.put_if_absent("x", file, content_type="", sha256=digest, immutable=True)
    assert store.head("x") is None
