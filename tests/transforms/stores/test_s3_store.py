"""What only a bucket can do wrong: the network, the service, the credentials, large objects."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_of
from tests.s3_kit import BucketServer, bucket_and_key, bucket_server
from transforms.errors import ConfigError, ConflictError
from transforms.stores.folder_store import FolderStore
from transforms.stores.s3 import S3Store
from transforms.stores.store import LostRaceError, PutResult
from transforms.stores.store_address import open_store

MIB = 2**20


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_fault_is_left_over(server: BucketServer) -> Iterator[None]:
    server.door.requests.clear()
    yield
    assert server.door.faults == []


@pytest.fixture(scope="module")
def bucket(server: BucketServer) -> Iterator[S3Store]:
    with server.store() as store:
        yield store


@pytest.fixture
def store(server: BucketServer, bucket: S3Store) -> Iterator[S3Store]:
    yield bucket
    server.empty(bucket)


def put(store: S3Store, key: str, content: bytes | Path) -> PutResult:
    data = content if isinstance(content, bytes) else content.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return store.put_if_absent(
        key, content, content_type="application/zip", sha256=digest, immutable=True
    )


def put_by_another_tool(server: BucketServer, store: S3Store, key: str, content: bytes) -> None:
    bucket, whole = bucket_and_key(store, key)
    server.client.put_object(Bucket=bucket, Key=whole, Body=content)


def bucket_of(store: S3Store) -> str:
    return store.describe().split("/")[2]


def asked(server: BucketServer, *methods: str) -> list[str]:
    """The last parts of what was asked for with these methods."""
    requests = [request.partition(" ") for request in server.door.requests]
    return [path.rpartition("/")[2] for method, _, path in requests if method in methods]


def test_an_object_is_written_by_one_request_and_read_by_one(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(3 * MIB))
    assert put(store, "x", file) is PutResult.CREATED
    store.fetch("x", tmp_path / "copy")
    assert store.read("x") == bytes(3 * MIB)
    assert server.door.requests == [
        f"{method} /{bucket_of(store)}/some/prefix/x" for method in ("PUT", "GET", "GET")
    ]


def test_a_large_object_goes_up_as_one_request_and_comes_back_whole(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"0123456789abcdef" * (65 * MIB // 16))
    assert put(store, "large", file) is PutResult.CREATED
    assert asked(server, "PUT", "POST") == ["large"]
    assert list(store.list()) == [store.head("large")]
    store.fetch("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()
    assert put(store, "large", file) is PutResult.IDENTICAL
    with pytest.raises(ConflictError):
        put(store, "large", bytes(6 * MIB))


def test_more_than_one_put_takes_is_refused_before_anything_is_sent(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    with file.open("wb") as sparse:
        sparse.truncate(5 * 2**30 + 1)
    for write in (
        lambda: store.put_if_absent("x", file, content_type="", sha256="0" * 64, immutable=True),
        lambda: store.put_if_match("x", file, None, "", sha256="0" * 64),
    ):
        with pytest.raises(ConfigError, match=r"x would have 5,368,709,121 bytes.*use a folder"):
            write()
    assert server.door.requests == []
    folder = FolderStore(tmp_path / "store")
    folder.put_if_absent("x", file, content_type="", sha256="0" * 64, immutable=True, take=True)
    assert folder.path("x").stat().st_size == 5 * 2**30 + 1


def test_a_write_refused_for_the_moment_is_tried_again(
    server: BucketServer, store: S3Store
) -> None:
    server.door.faults.append(("PUT", "409 ConditionalRequestConflict"))
    assert put(store, "x", b"1") is PutResult.CREATED
    server.door.faults.append(("PUT", "409 ConditionalRequestConflict"))
    with pytest.raises(LostRaceError):
        store.put_if_match("index", b"1", None, "application/json")


def test_a_write_refused_again_and_again_is_given_up(server: BucketServer, store: S3Store) -> None:
    server.door.faults += [("PUT", "409 ConditionalRequestConflict")] * 10
    with pytest.raises(LostRaceError, match="try again later"):
        put(store, "x", b"1")


def test_a_created_object_whose_answer_got_lost_is_identical_the_second_time(
    server: BucketServer, store: S3Store
) -> None:
    server.door.faults.append(("PUT", "lose the answer"))
    with pytest.raises(ConnectionError):
        put(store, "x", b"1")
    assert put(store, "x", b"1") is PutResult.IDENTICAL


def test_a_retry_after_a_lost_answer_adopts_its_own_object(server: BucketServer) -> None:
    with server.store(attempts=2) as store:
        server.door.faults.append(("PUT", "lose the answer"))
        assert put(store, "x", b"1") is PutResult.IDENTICAL


def test_a_range_cut_short_is_asked_for_again(server: BucketServer) -> None:
    with server.store(attempts=2) as store:
        put(store, "x", bytes(100_000))
        server.door.faults.append(("GET", "cut the body"))
        assert store.read("x") == bytes(100_000)


def test_a_range_cut_short_every_time_is_a_lost_connection(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    put(store, "x", bytes(100_000))
    server.door.faults.append(("GET", "cut the body"))
    with pytest.raises(ConnectionError, match="no answer"):
        store.fetch("x", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_an_object_put_there_by_another_tool_is_compared_by_its_bytes(
    server: BucketServer, store: S3Store
) -> None:
    put_by_another_tool(server, store, "x", b"bytes")
    assert put(store, "x", b"bytes") is PutResult.IDENTICAL
    with pytest.raises(ConflictError, match=hashlib.sha256(b"bytes").hexdigest()):
        put(store, "x", b"other")


def test_a_listing_has_the_times_that_its_objects_have(store: S3Store) -> None:
    """A listing's are of another form, and read by Python instead of botocore."""
    put(store, "a/b", b"data")
    before = time.time()
    (info,) = store.list("a/")
    one = store.head("a/b")
    assert one is not None
    assert abs(info.modified - one.modified) <= 1  # a header has whole seconds
    assert abs(info.modified - before) < 3600


def test_a_list_of_many_pages_is_complete_and_leaves_folder_markers_out(
    server: BucketServer,
) -> None:
    with server.store() as store:
        keys = [f"x{number:04d}" for number in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: put_by_another_tool(server, store, key, b""), keys))
        put_by_another_tool(server, store, "y/", b"")
        assert sorted(info.key for info in store.list()) == keys
        assert asked(server, "GET") == [bucket_of(store)] * 2


@pytest.mark.parametrize(
    ("immutable", "caching"),
    [(True, "public, max-age=31536000, immutable"), (False, "public, no-cache")],
)
def test_browsers_are_told_what_it_is_and_how_long_it_keeps(
    server: BucketServer, store: S3Store, immutable: bool, caching: str
) -> None:
    digest = hashlib.sha256(b"1").hexdigest()
    store.put_if_absent(
        "x.zip", b"1", content_type="application/zip", sha256=digest, immutable=immutable
    )
    held = server.client.head_object(Bucket=bucket_of(store), Key="some/prefix/x.zip")
    assert held["ContentType"] == "application/zip"
    assert held["CacheControl"] == caching
    assert held["Metadata"] == {"sha256": digest}


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("403 AccessDenied", ConfigError, "refused access to s3://.*credentials"),
        ("403 SignatureDoesNotMatch", ConfigError, "check the credentials"),
        ("400 ExpiredToken", ConfigError, "check the credentials"),
        ("400 BadDigest", ConnectionError, "was not written, .* arrived damaged .*proxy"),
        ("400 MalformedXML", OSError, "refused a request for s3://.*MalformedXML"),
        ("400 InvalidRequest", ConfigError, "refused to write s3://.*x-amz-checksum-sha256"),
        ("501 NotImplemented", ConfigError, "refused to write s3://.*x-amz-checksum-sha256"),
        ("503 SlowDown", ConnectionError, "try s3://.* later"),
        ("500 InternalError", ConnectionError, "try s3://.* later"),
        ("lose the answer", ConnectionError, "AWS_ENDPOINT_URL"),
    ],
)
def test_a_refusal_is_a_sentence(
    server: BucketServer, store: S3Store, fault: str, error: type[Exception], words: str
) -> None:
    server.door.faults.append(("PUT", fault))
    with pytest.raises(error, match=words):
        put(store, "x", b"1")


@contextmanager
def _refusing_service(ahead: float, certificate: Path | None = None) -> Iterator[str]:
    """A service that refuses requests, with a clock that is some seconds ahead."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - as the server calls it

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((timestamp or time.time()) + ahead)

        def log_message(self, *_: object) -> None:
            pass

    service = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        service.socket = context.wrap_socket(service.socket, server_side=True)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{service.server_port}"
    finally:
        service.shutdown()
        service.server_close()


@pytest.mark.parametrize(("ahead", "words"), [(4000, "seconds behind"), (-4000, "seconds ahead")])
def test_a_wrong_clock_is_named_with_its_seconds(
    server: BucketServer, ahead: float, words: str
) -> None:
    with _refusing_service(ahead) as url:
        store = S3Store("bucket", "", server.options(endpoint=url))
        for use in (lambda: store.head("x"), lambda: store.read("x")):
            with pytest.raises(OSError, match=rf"clock is [34],\d\d\d {words}"):
                use()
        store.close()


def test_a_certificate_that_nobody_knows_is_named_with_its_setting(
    server: BucketServer, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "own.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=b.test"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with certificate.open("ab") as file:
        file.write(key.read_bytes())
    with _refusing_service(0, certificate) as url:
        store = S3Store("bucket", "", server.options(endpoint=url))
        with pytest.raises(ConfigError, match=f"certificate of {url} .*AWS_CA_BUNDLE"):
            store.read("x")
        store.close()


def test_a_missing_bucket_is_named_with_its_endpoint(server: BucketServer) -> None:
    store = S3Store("no-such-bucket", "", server.options())
    for use in (lambda: put(store, "x", b"1"), lambda: list(store.list())):
        with pytest.raises(ConfigError, match=f"no bucket 'no-such-bucket' at {server.url}"):
            use()
    store.close()


def test_a_server_that_dies_is_a_lost_connection(tmp_path: Path) -> None:
    with bucket_server() as dying, dying.store() as store:
        put(store, "x", b"1")
        dying.stop()
        for use in (
            lambda: put(store, "y", b"1"),
            lambda: store.read("x"),
            lambda: store.head("x"),
            lambda: store.fetch("x", tmp_path / "copy"),
            lambda: list(store.list()),
        ):
            with pytest.raises(ConnectionError, match=f"no answer from {dying.url}"):
                use()


def test_missing_credentials_say_what_to_set(
    server: BucketServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    store = S3Store("bucket", "", server.options())
    with pytest.raises(ConfigError, match="set AWS_ACCESS_KEY_ID"):
        store.read("x")
    store.close()


@pytest.mark.parametrize(
    ("bucket", "changes"),
    [("no bucket!", {}), ("bucket", {"endpoint": "nonsense"})],
)
def test_an_impossible_address_is_an_error_of_the_settings(
    server: BucketServer, bucket: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=f"s3://{bucket}"):
        S3Store(bucket, "", server.options(**changes)).read("x")


def test_the_environment_names_endpoint_and_region_in_the_usual_way(
    server: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    bucket = server.bucket()
    signatures: list[str] = []
    monkeypatch.setattr(
        server.door,
        "on_request",
        lambda request: signatures.append(request.header("authorization")),
    )
    store = open_store(f"s3://{bucket}/a/b/")
    assert isinstance(store, S3Store)
    put(store, "x", b"1")
    assert store.describe("x") == f"s3://{bucket}/a/b/x"
    assert f"PUT /{bucket}/a/b/x" in server.door.requests
    assert "/eu-west-3/s3/" in signatures[0]
    store.close()


@each_of(
    ("url", "place"),
    [
        ("/data/archive", "/data/archive"),
        ("file:///data/archive", "/data/archive"),
        ("file:///data/with%20space", "/data/with space"),
        ("file://localhost/data", "/data"),
        ("relative/folder", str(Path("relative/folder").absolute())),
        ("~/archive", "~/archive"),
    ],
)
def test_a_path_opens_a_folder(url: str, place: str) -> None:
    store = open_store(url)
    assert isinstance(store, FolderStore)
    assert store.describe() == str(Path(place).expanduser())


@each_of("url", ["", "s3://", "s3:///key", "gs://bucket", "file://host/x", "http://x"])
def test_any_other_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"s3://<bucket>"):
        open_store(url)
