"""What services honour is seen before anything is written: on SeaweedFS, rclone, and odd ones."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.fault_proxy import FLIP_THE_REQUEST, LOSE_THE_ANSWER, PASS, FaultProxy, Request
from tests.rclone_kit import rclone_server
from tests.s3_kit import BucketServer, bucket_server
from transforms.errors import ConfigError, ConflictError, IntegrityError
from transforms.stores.folder_store import FolderStore
from transforms.stores.folder_tree import check_file_system
from transforms.stores.probing import KeptFacts, StoreFacts
from transforms.stores.s3 import S3Store
from transforms.stores.store import LostRaceError, PutResult, S3Options, Store

ALL = StoreFacts(
    creates_once=True,
    replaces_matching=True,
    unquoted=False,
    verifies=True,
)


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
    assert store.facts() == ALL
    assert left(server, bucket, "a") == []
    store.close()


def test_rclone_is_refused_with_the_request_that_it_ignores(rclone: str, tmp_path: Path) -> None:
    store = S3Store("bucket", "a", S3Options(rclone))
    for write in (
        lambda: put(store, "x", b"1"),
        lambda: store.put_if_match("x", b"1", None, ""),
    ):
        with pytest.raises(ConfigError, match=r"PUT with If-None-Match: \*.*STRATA_SINGLE_WRITER"):
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


def test_what_a_service_does_not_verify_is_read_back_and_sent_again(rclone: str) -> None:
    door = FaultProxy(rclone)
    store = S3Store("bucket", "a", S3Options(door.url, attempts=3, single_writer=True))
    store.facts()
    door.faults += [("PUT", FLIP_THE_REQUEST)] * 2
    assert put(store, "x", bytes(100)) is PutResult.CREATED
    assert store.read("x") == bytes(100)

    door.on_request = lambda request: FLIP_THE_REQUEST if request.method == "PUT" else PASS
    with pytest.raises(IntegrityError, match=r"written 3 times.* damaged on the way"):
        put(store, "y", bytes(100))
    assert store.head("y") is None
    store.close()
    door.stop()


def test_a_damaged_upload_of_a_killed_writer_is_made_good_by_the_same_bytes(
    server: BucketServer, bucket: str, tmp_path: Path
) -> None:
    facts = kept(server, bucket, "killed", tmp_path, replace(ALL, verifies=False))
    store = S3Store(bucket, "killed", server.options(facts=facts))
    digest = hashlib.sha256(b"bytes").hexdigest()
    server.client.put_object(
        Bucket=bucket, Key="killed/x", Body=b"bytfs", Metadata={"sha256": digest}
    )
    with pytest.raises(ConflictError):
        put(store, "x", b"other")
    assert put(store, "x", b"bytes") is PutResult.CREATED
    assert store.read("x") == b"bytes"
    store.close()


def kept(server: BucketServer, bucket: str, prefix: str, folder: Path, facts: StoreFacts) -> Path:
    """A folder where this machine has these facts of a store."""
    KeptFacts(folder, f"s3://{bucket}/{prefix}/ at {server.url}").write(facts)
    return folder


def test_a_service_that_wants_etags_without_quotes_gets_them_so(
    server: BucketServer, bucket: str
) -> None:
    def refusing(request: Request) -> str:
        quoted = request.method != "GET" and request.header("if-match").startswith('"')
        return "412 PreconditionFailed" if quoted else PASS

    server.door.on_request = refusing
    store = S3Store(bucket, "unquoted", server.options())
    assert store.facts() == replace(ALL, unquoted=True)
    version = store.put_if_match("x", b"1", None, "")
    version = store.put_if_match("x", b"2", version, "")
    with pytest.raises(LostRaceError):
        store.put_if_match("x", b"3", '"another"', "")
    assert store.read("x", version=version) == b"2"
    store.close()


def test_a_service_that_knows_no_replacing_is_refused(server: BucketServer, bucket: str) -> None:
    server.door.on_request = lambda request: (
        "501 NotImplemented" if request.header("if-match") and request.method == "PUT" else PASS
    )
    store = S3Store(bucket, "other", server.options())
    with pytest.raises(ConfigError, match="PUT with If-Match"):
        put(store, "x", b"1")
    assert left(server, bucket, "other") == []
    store.close()


def test_an_answer_that_gets_lost_is_not_taken_for_a_refusal(
    server: BucketServer, bucket: str
) -> None:
    store = S3Store(bucket, "lost", server.options(attempts=2))
    server.door.faults.append(("PUT", LOSE_THE_ANSWER))
    assert store.facts() == ALL
    store.close()


def test_facts_are_kept_for_a_day_and_a_refusal_is_not(
    server: BucketServer, bucket: str, tmp_path: Path
) -> None:
    def probed(prefix: str = "kept") -> int:
        server.door.requests.clear()
        store = S3Store(bucket, prefix, server.options(facts=tmp_path))
        store.facts()
        store.close()
        return len(server.door.requests)

    assert probed() > 6
    assert probed() == 0
    (file,) = tmp_path.iterdir()
    held = json.loads(file.read_text())
    file.write_text(json.dumps({**held, "facts": asdict(replace(ALL, creates_once=False))}))
    assert probed() > 6
    assert probed() == 0


def test_facts_that_are_old_damaged_or_of_another_store_are_not_taken(tmp_path: Path) -> None:
    kept = KeptFacts(tmp_path, "s3://bucket/a/ at here")
    assert kept.read() is None
    kept.write(ALL)
    assert kept.read() == ALL
    assert KeptFacts(tmp_path, "s3://bucket/b/ at here").read() is None
    (file,) = tmp_path.iterdir()
    held = json.loads(file.read_text())
    for age, young in ((86_000, True), (87_000, False), (-60, False)):
        file.write_text(json.dumps({**held, "time": time.time() - age}))
        assert (kept.read() == ALL) is young, age
    elsewhere = json.dumps({**held, "address": "elsewhere"})
    for text in ("", "[]", "{}", elsewhere, json.dumps({**held, "facts": {}})):
        file.write_text(text)
        assert kept.read() is None, text


def test_a_folder_that_cannot_be_written_to_costs_only_another_probe(
    server: BucketServer, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    store = S3Store(bucket, "a", server.options(facts=tmp_path / "file" / "stores"))
    assert store.facts() == ALL
    store.close()


def test_machines_may_probe_at_once_and_young_leftovers_stay(
    server: BucketServer, bucket: str
) -> None:
    young = ".strata-scratch/probes/0-1"
    server.client.put_object(Bucket=bucket, Key=f"many/{young}", Body=b"of a killed probe")
    stores = [S3Store(bucket, "many", server.options()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(S3Store.facts, stores)) == [ALL] * 4
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
