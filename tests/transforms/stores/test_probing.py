"""What services honour is seen before anything is written: on SeaweedFS, rclone, and odd ones."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fault_proxy import FLIP_THE_REQUEST, LOSE_THE_ANSWER, PASS, FaultProxy
from tests.rclone_kit import rclone_server
from tests.s3_kit import BucketServer, bucket_server
from transforms.errors import ConfigError, ConflictError, IntegrityError
from transforms.stores.folder_store import FolderStore
from transforms.stores.folder_tree import check_file_system
from transforms.stores.s3 import S3Store
from transforms.stores.store import LostRaceError, PutResult, S3Options, Store


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(scope="module")
def bucket(server: BucketServer) -> str:
    return server.bucket()


@pytest.fixture(autouse=True)
def _nothing_is_done_to_requests(server: BucketServer) -> Iterator[None]:
    yield
    server.door.on_request = lambda _: None
    assert server.door.faults == []


@pytest.fixture
def rclone(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "rclone" / "bucket").mkdir(parents=True)
    with rclone_server(tmp_path / "rclone") as url:
        yield url


def put(store: Store, key: str, content: bytes) -> PutResult:
    digest = hashlib.sha256(content).hexdigest()
    return store.put_if_absent(key, content, content_type="", sha256=digest, immutable=True)


def left(server: BucketServer, bucket: str, prefix: str) -> list[str]:
    found = server.client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/").get("Contents", [])
    return [item["Key"] for item in found]


def test_seaweedfs_honours_all_and_nothing_is_left_of_the_probe(
    server: BucketServer, bucket: str
) -> None:
    store = S3Store(bucket, "a", server.options())
    store.try_service()
    assert left(server, bucket, "a") == []
    store.close()


def test_rclone_is_refused_with_the_request_that_it_ignores(rclone: str, tmp_path: Path) -> None:
    store = S3Store("bucket", "a", S3Options(rclone))
    for write in (
        lambda: put(store, "x", b"1"),
        lambda: store.put_if_match("x", b"1", None, ""),
    ):
        with pytest.raises(ConfigError, match=r"PUT with If-None-Match: \*.*SINGLE_WRITER=1"):
            write()
    assert list(store.list()) == []
    assert [path for path in (tmp_path / "rclone").rglob("*") if path.is_file()] == []
    store.close()


def test_a_single_writer_looks_before_it_writes(rclone: str, tmp_path: Path) -> None:
    store = S3Store("bucket", "a", S3Options(rclone, single_writer=True))
    assert put(store, "x", b"1") is PutResult.CREATED
    assert put(store, "x", b"1") is PutResult.IDENTICAL
    with pytest.raises(ConflictError):
        put(store, "x", b"2")
    version = store.put_if_match("i", b"1", None, "")
    with pytest.raises(LostRaceError):
        store.put_if_match("i", b"2", None, "")
    with pytest.raises(LostRaceError):
        store.put_if_match("absent", b"2", version, "")
    other = store.put_if_match("i", b"2", version, "")
    with pytest.raises(LostRaceError):
        store.put_if_match("i", b"3", version, "")
    assert [(info.key, info.version) for info in store.list("i")] == [("i", other)]
    assert (store.read("i"), store.read("x")) == (b"2", b"1")
    store.fetch("x", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"1"
    store.close()


def test_what_a_single_writer_wrote_is_read_back(rclone: str) -> None:
    door = FaultProxy(rclone)
    store = S3Store("bucket", "a", S3Options(door.url, attempts=3, single_writer=True))
    door.faults += [("PUT", FLIP_THE_REQUEST)]
    with pytest.raises(IntegrityError, match=r"a/x was written, .* try again"):
        put(store, "x", bytes(100))
    assert store.head("x") is None
    assert put(store, "x", bytes(100)) is PutResult.CREATED
    assert store.read("x") == bytes(100)
    store.close()
    door.stop()


def test_a_service_that_knows_no_replacing_is_refused(server: BucketServer, bucket: str) -> None:
    server.door.on_request = lambda request: (
        "501 NotImplemented" if request.header("if-match") and request.method == "PUT" else PASS
    )
    store = S3Store(bucket, "other", server.options())
    with pytest.raises(ConfigError, match="PUT with If-Match"):
        put(store, "x", b"1")
    assert left(server, bucket, "other") == []
    store.close()


@pytest.mark.parametrize("refusal", ["501 NotImplemented", "400 InvalidRequest", "400 Unknown"])
def test_a_service_that_refuses_checksums_is_refused_with_that_header(
    server: BucketServer, bucket: str, refusal: str
) -> None:
    server.door.on_request = lambda request: (
        refusal if request.header("x-amz-checksum-sha256") else PASS
    )
    store = S3Store(bucket, "other", server.options())
    with pytest.raises(ConfigError, match=r"does not honour .*x-amz-checksum-sha256"):
        put(store, "x", b"1")
    store.close()


def test_a_service_that_does_not_verify_what_arrives_is_refused(
    server: BucketServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = hashlib.sha256
    # Whatever is announced is right here, so that nothing is refused.
    monkeypatch.setattr(
        "transforms.stores.probing.hashlib.sha256",
        lambda data: right(b"probe 5" if data == b"other bytes" else data),
    )
    store = S3Store(bucket, "unverified", server.options())
    with pytest.raises(ConfigError, match="does not honour the SHA-256 of a PUT"):
        put(store, "x", b"1")
    store.close()


def test_an_answer_that_gets_lost_is_not_taken_for_a_refusal(
    server: BucketServer, bucket: str
) -> None:
    store = S3Store(bucket, "lost", server.options(attempts=2))
    server.door.faults.append(("PUT", LOSE_THE_ANSWER))
    store.try_service()
    store.close()


def test_a_service_is_tried_once_a_day_and_again_after_a_refusal(
    server: BucketServer, bucket: str, tmp_path: Path
) -> None:
    def probed(prefix: str = "kept") -> int:
        server.door.requests.clear()
        store = S3Store(bucket, prefix, server.options(facts=tmp_path))
        with suppress(ConfigError):
            store.try_service()
        store.close()
        return len(server.door.requests)

    server.door.on_request = lambda request: (
        "501 NotImplemented" if request.header("if-match") else PASS
    )
    assert probed() > probed("other") - 1 > 5
    server.door.on_request = lambda _: None
    assert probed() > 5
    assert probed() == 0
    (stamp,) = tmp_path.iterdir()
    for age, is_young in ((86_000, True), (87_000, False), (-60, False)):
        os.utime(stamp, times=(time.time() - age,) * 2)
        assert (probed() == 0) is is_young, age
    assert probed("another") > 5


def test_a_folder_that_cannot_be_written_to_costs_only_another_probe(
    server: BucketServer, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    store = S3Store(bucket, "a", server.options(facts=tmp_path / "file" / "stores"))
    store.try_service()
    store.close()


def test_machines_may_probe_at_once_and_young_leftovers_stay(
    server: BucketServer, bucket: str
) -> None:
    young = ".strata-scratch/probes/0-1"
    server.client.put_object(Bucket=bucket, Key=f"many/{young}", Body=b"of a killed probe")
    stores = [S3Store(bucket, "many", server.options()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(S3Store.try_service, stores))
    assert left(server, bucket, "many") == [f"many/{young}"]
    assert list(stores[0].list()) == []
    server.client.delete_object(Bucket=bucket, Key=f"many/{young}")
    for store in stores:
        store.close()


def test_readers_probe_nothing(server: BucketServer, bucket: str) -> None:
    store = S3Store(bucket, "read", server.options())
    server.door.requests.clear()
    assert (list(store.list()), store.head("x")) == ([], None)
    assert {request.split()[0] for request in server.door.requests} == {"GET", "HEAD"}
    store.close()


def test_a_folder_is_tried_before_it_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    check_file_system(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "link", no_links)
    store = FolderStore(tmp_path / "store")
    for write in (
        lambda: put(store, "x", b"1"),
        lambda: store.put_if_match("x", b"1", None, ""),
    ):
        with pytest.raises(ConfigError, match=r"knows no hard links.*another file system"):
            write()
    assert list(store.list()) == []
