"""Objects as local files: brought whole or not at all, held by leases, removed beyond a limit."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from threading import Barrier, Event

import pytest

from tests.fault_proxy import Request
from tests.s3_kit import BucketServer, bucket_server
from tests.transforms.stores.test_folder_store import files_below, no_file_above
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import StoredFile
from transforms.stores.folder_store import FolderStore
from transforms.stores.s3 import S3Store
from transforms.stores.store import CHUNK_BYTES, Store
from transforms.warehouse.files.local_files import LocalFiles

# Holds the files until its input ends, or (`evict`) removes what it can for each line of input.
_PROCESS = """
import json, sys
from pathlib import Path
from transforms.objects import StoredFile
from transforms.stores.s3 import S3Store
from transforms.stores.store import S3Options
from transforms.warehouse.files.local_files import LocalFiles
url, bucket, cache, does, files = sys.argv[1:]
store = S3Store(bucket, "some/prefix", S3Options(endpoint=url, region="us-east-1", attempts=1))
local = LocalFiles(store, Path(cache), most_bytes=0)
if does == "evict":
    for line in sys.stdin:
        print(local.evict(), flush=True)
else:
    with local.hold([StoredFile(*file) for file in json.loads(files)]):
        print("held", flush=True)
        sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture
def store(server: BucketServer) -> Iterator[S3Store]:
    with server.store() as store:
        yield store
    server.door.on_request = lambda request: None
    assert server.door.faults == []


def put(store: Store, key: str, data: bytes) -> StoredFile:
    digest = hashlib.sha256(data).hexdigest()
    store.put_if_absent(key, data, content_type="", sha256=digest, immutable=True)
    return StoredFile(key, len(data), digest)


def some_files(store: Store, count: int, size: int = 1000) -> list[StoredFile]:
    return [put(store, f"index/{n}.duckdb", bytes([n]) * size) for n in range(count)]


def copies(cache: Path) -> list[str]:
    """Every file of the cache but its proofs and the lock of those who evict; copies by keys."""
    others = ("leases/evicting", "proofs.")
    names = (name for name in files_below(cache) if not name.startswith(others))
    return sorted(name.removeprefix("copies/") for name in names)


def gets(server: BucketServer) -> int:
    return sum(request.startswith("GET") for request in server.door.requests)


class _Process:
    """A process of the same machine that uses the same cache."""

    def __init__(
        self, server: BucketServer, store: Store, cache: Path, does: str, *files: StoredFile
    ) -> None:
        bucket = store.describe().split("/")[2]
        listed = json.dumps([astuple(file) for file in files])
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROCESS, server.url, bucket, cache, does, listed],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate(input="")
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL


@contextmanager
def _holding(
    server: BucketServer, store: Store, cache: Path, *files: StoredFile
) -> Iterator[_Process]:
    process = _Process(server, store, cache, "hold", *files)
    assert process.says() == "held"
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.end()


def test_the_files_of_a_folder_are_its_own_and_nothing_is_copied(tmp_path: Path) -> None:
    cache, store = tmp_path / "cache", FolderStore(tmp_path / "store")
    file = put(store, "index/x.duckdb", b"bytes")
    local = LocalFiles(store, cache, most_bytes=0)
    local.bring([file, file])
    assert local.path(file) == tmp_path / "store/index/x.duckdb"
    built = tmp_path / "built"
    built.write_bytes(b"bytes")
    local.adopt(file, built)
    with local.hold([file]):
        assert local.evict() == 0
    assert local.evict() == 0
    assert files_below(tmp_path) == ["built", "store/index/x.duckdb"]


def test_a_file_that_a_folder_lacks_is_missing(tmp_path: Path) -> None:
    local = LocalFiles(FolderStore(tmp_path / "store"), tmp_path / "cache")
    with pytest.raises(FileNotFoundError, match=r"store/index/x\.duckdb"):
        local.bring([StoredFile("index/x.duckdb", 1, "")])


def test_a_file_that_was_cut_off_in_a_folder_is_found_out(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    file = put(store, "index/x.duckdb", b"bytes")
    (tmp_path / file.key).write_bytes(b"byt")
    with pytest.raises(
        IntegrityError, match=r"is damaged: it has 3 bytes and the .* names 5: run strata repair"
    ):
        LocalFiles(store, tmp_path / "cache").bring([file])


def test_objects_are_downloaded_once(server: BucketServer, store: S3Store, tmp_path: Path) -> None:
    files = [*some_files(store, 9), put(store, "manifests/empty.parquet", b"")]
    local = LocalFiles(store, tmp_path)
    server.door.requests.clear()
    local.bring(files)
    assert gets(server) == 10
    for file in files:
        assert local.path(file) == tmp_path / "copies" / file.key
        assert local.path(file).read_bytes() == store.read(file.key)
    server.door.requests.clear()
    local.bring(files)
    assert server.door.requests == []
    assert copies(tmp_path) == sorted(file.key for file in files)


@pytest.mark.parametrize("more", [0, 1])
def test_large_objects_come_in_pieces(
    server: BucketServer, store: S3Store, tmp_path: Path, more: int
) -> None:
    data = b"0123456789abcdef" * (2 * CHUNK_BYTES // 16) + bytes(more)
    file = put(store, "state/x.duckdb", data)
    server.door.requests.clear()
    LocalFiles(store, tmp_path).bring([file])
    assert (tmp_path / "copies" / file.key).read_bytes() == data
    assert gets(server) == 2 + 1  # the last says that it is the end


def test_a_bit_that_flips_on_the_way_is_found_out(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = put(store, "index/x.duckdb", b"bytes")
    flipped = hashlib.sha256(b"byues").hexdigest()
    server.door.faults.append(("GET", "flip a bit"))
    with pytest.raises(IntegrityError, match=rf"s3://.*x\.duckdb .*{flipped}.* try again"):
        LocalFiles(store, tmp_path).bring([file])
    assert copies(tmp_path) == []
    LocalFiles(store, tmp_path).bring([file])
    assert copies(tmp_path) == [file.key]


def test_an_object_of_another_size_is_not_taken(store: S3Store, tmp_path: Path) -> None:
    file = put(store, "index/x.duckdb", b"bytes")
    other = StoredFile(file.key, 4, file.sha256)
    with pytest.raises(IntegrityError, match=r"gave 5 bytes .* names 4 bytes"):
        LocalFiles(store, tmp_path).bring([other])
    assert copies(tmp_path) == []


def test_a_lost_connection_is_no_missing_file_and_a_missing_file_is_one(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = put(store, "index/x.duckdb", bytes(100_000))
    local = LocalFiles(store, tmp_path)
    for fault in ("cut the body", "lose the answer", "503 SlowDown"):
        server.door.faults.append(("GET", fault))
        with pytest.raises(ConnectionError, match="s3://"):
            local.bring([file])
    with pytest.raises(FileNotFoundError, match=r"s3://.*y\.duckdb"):
        local.bring([StoredFile("index/y.duckdb", 1, "")])
    assert copies(tmp_path) == []


def test_what_arrived_before_a_failure_stays(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    files = some_files(store, 40)
    missing = StoredFile("index/missing.duckdb", 1, "")
    local = LocalFiles(store, tmp_path)
    with pytest.raises(FileNotFoundError, match="missing"):
        local.bring([*files[:20], missing, *files[20:]])
    arrived = copies(tmp_path)
    assert set(arrived) <= {file.key for file in files}
    server.door.requests.clear()
    local.bring(files)
    assert gets(server) == 40 - len(arrived)


def test_a_copy_of_another_size_is_fetched_again_and_a_damaged_one_when_it_is_rechecked(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = put(store, "spam/x.duckdb", b"bytes")
    local, copy = LocalFiles(store, tmp_path), tmp_path / "copies/spam/x.duckdb"
    local.bring([file])
    copy.write_bytes(b"byt")
    local.bring([file])
    assert copy.read_bytes() == b"bytes"
    copy.write_bytes(b"bytez")
    local.bring([file])
    assert copy.read_bytes() == b"bytez"
    local.bring([file], recheck=True)
    assert copy.read_bytes() == b"bytes"
    server.door.requests.clear()
    local.bring([file], recheck=True)
    assert server.door.requests == []


def test_a_download_that_finds_no_room_names_its_place_and_leaves_nothing(
    store: S3Store, tmp_path: Path
) -> None:
    file = put(store, "index/x.duckdb", bytes(5000))
    local = LocalFiles(store, tmp_path)
    with (
        no_file_above(1000),
        pytest.raises(OSError, match=rf"too large: '{tmp_path}/copies/index/x\.duckdb'"),
    ):
        local.bring([file])
    assert copies(tmp_path) == []
    with (
        no_file_above(10),
        pytest.raises(OSError, match=rf"too large: '{tmp_path}/leases/"),
        local.hold([file]),
    ):
        pass
    assert copies(tmp_path) == []
    local.bring([file])
    assert copies(tmp_path) == [file.key]


@pytest.mark.parametrize("key", ["index/../../seen.json", "/index/x", ".."])
def test_no_key_leads_out_of_the_folder_of_the_copies(
    store: S3Store, tmp_path: Path, key: str
) -> None:
    (tmp_path / "seen.json").write_bytes(b"1")
    with pytest.raises(ConfigError, match=re.escape(repr(key))):
        LocalFiles(store, tmp_path).bring([StoredFile(key, 1, "")])
    assert copies(tmp_path) == ["seen.json"]


def test_two_processes_bring_the_same_file_at_once(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = put(store, "index/x.duckdb", bytes(CHUNK_BYTES) + b"end")
    both = Barrier(2, timeout=60)
    server.door.on_request = lambda request: both.wait()
    processes = [_Process(server, store, tmp_path, "hold", file) for _ in range(2)]
    assert [process.says() for process in processes] == ["held", "held"]
    assert (tmp_path / "copies" / file.key).read_bytes() == bytes(CHUNK_BYTES) + b"end"
    for process in processes:
        process.end()
    assert copies(tmp_path) == [file.key]


def test_a_process_killed_in_the_middle_of_a_download_leaves_nothing_half(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = put(store, "index/x.duckdb", bytes(CHUNK_BYTES) + b"end")
    for _ in range(2):
        server.door.requests.clear()
        asked, gone = Event(), Event()

        def wait_in_the_middle(_: Request, asked: Event = asked, gone: Event = gone) -> None:
            if gets(server) == 2:  # the first piece was answered
                asked.set()
                assert gone.wait(60)

        server.door.on_request = wait_in_the_middle
        process = _Process(server, store, tmp_path, "hold", file)
        assert asked.wait(60)
        process.kill()
        gone.set()
        assert not (tmp_path / "copies" / file.key).exists()
        half = [path for path in (tmp_path / "scratch").glob("run-*/*") if path.stat().st_size]
        assert len(half) == 1  # of the process killed just now; the one before was swept
    server.door.on_request = lambda request: None
    local = LocalFiles(store, tmp_path)
    local.bring([file])
    assert (tmp_path / "copies" / file.key).read_bytes() == bytes(CHUNK_BYTES) + b"end"
    assert local.evict() == 0
    assert copies(tmp_path) == [file.key]


def test_what_was_built_here_is_not_downloaded(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    file = put(store, "index/x.duckdb", b"bytes")
    built = tmp_path / "built"
    built.write_bytes(b"bytes")
    local = LocalFiles(store, tmp_path)
    local.adopt(file, built)
    server.door.requests.clear()
    with local.hold([file]):
        assert local.path(file).read_bytes() == b"bytes"
    assert server.door.requests == []
    assert copies(tmp_path) == [file.key]


def test_what_was_built_here_counts_as_used_last(store: S3Store, tmp_path: Path) -> None:
    older, newer = some_files(store, 2)
    built = tmp_path / "built"
    built.write_bytes(store.read(newer.key))
    os.utime(built, (0, 0))
    local = LocalFiles(store, tmp_path, most_bytes=1500)
    local.bring([older])
    local.adopt(newer, built)
    assert local.evict() == 1000
    assert copies(tmp_path) == [newer.key]


def test_the_least_recently_used_copies_go_first(store: S3Store, tmp_path: Path) -> None:
    files = some_files(store, 4)
    local = LocalFiles(store, tmp_path, most_bytes=3500)
    for number, file in enumerate(files[:3]):
        local.bring([file])
        os.utime(local.path(file), (1000 + number, 1000 + number))
    local.bring([files[0]])  # used now
    assert local.path(files[0]).stat().st_mtime == 1000  # and not written
    local.bring([files[3]])
    assert copies(tmp_path) == [files[0].key, files[2].key, files[3].key]
    assert local.evict() == 0
    assert LocalFiles(store, tmp_path, most_bytes=2000).evict() == 1000
    assert copies(tmp_path) == [files[0].key, files[3].key]


def test_what_is_held_may_exceed_the_limit(store: S3Store, tmp_path: Path) -> None:
    files = some_files(store, 5)
    local = LocalFiles(store, tmp_path, most_bytes=2500)
    local.bring(files[:1])
    with local.hold(files[1:3]):
        assert copies_but_leases(tmp_path) == [file.key for file in files[1:3]]
        with local.hold(files[1:5]):
            assert copies_but_leases(tmp_path) == [file.key for file in files[1:5]]
            assert local.evict() == 0
        assert local.evict() == 2000
        assert copies_but_leases(tmp_path) == [file.key for file in files[1:3]]
    assert copies(tmp_path) == [file.key for file in files[1:3]]


def copies_but_leases(cache: Path) -> list[str]:
    return [name for name in copies(cache) if not name.startswith("leases/")]


def test_a_lease_ends_with_its_block_also_when_that_fails(store: S3Store, tmp_path: Path) -> None:
    (file,) = some_files(store, 1)
    local = LocalFiles(store, tmp_path, most_bytes=0)
    with suppress(ZeroDivisionError), local.hold([file]):
        assert local.evict() == 0
        raise ZeroDivisionError
    assert local.evict() == 1000
    assert copies(tmp_path) == []


def test_the_lease_of_another_process_counts_until_it_ends(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    held, free = some_files(store, 2)
    local = LocalFiles(store, tmp_path, most_bytes=0)
    with _holding(server, store, tmp_path, held):
        local.bring([free])
        assert local.evict() == 1000
        assert copies_but_leases(tmp_path) == [held.key]
    assert local.evict() == 1000
    assert copies(tmp_path) == []


def test_the_lease_of_a_killed_process_is_void_and_swept(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    (file,) = some_files(store, 1)
    local = LocalFiles(store, tmp_path, most_bytes=0)
    with _holding(server, store, tmp_path, file) as process:
        assert local.evict() == 0
        process.kill()
    assert copies_but_leases(tmp_path) != copies(tmp_path)  # the lease is there
    assert local.evict() == 1000
    assert copies(tmp_path) == []


def test_nobody_loses_what_he_holds_to_a_process_that_removes_all_it_can(
    server: BucketServer, store: S3Store, tmp_path: Path
) -> None:
    files = some_files(store, 3)
    local = LocalFiles(store, tmp_path)
    other = _Process(server, store, tmp_path, "evict")
    freed = 0
    for _ in range(100):
        other.tell()
        with local.hold(files):
            freed += int(other.says())
            assert copies_but_leases(tmp_path) == [file.key for file in files]
    other.end()
    assert freed > 0  # it did remove them at times, just before they were held


def test_only_copies_are_removed(store: S3Store, tmp_path: Path) -> None:
    cache, outside = tmp_path / "cache", tmp_path / "outside"
    local = LocalFiles(store, cache, most_bytes=0)
    files = [
        put(store, f"{kind}/x", b"x") for kind in ("index", "state", "manifests", "data/trades")
    ]
    local.bring(files)
    outside.write_bytes(b"outside")
    (cache / "copies/index/link").symlink_to(outside)
    for name in ("seen.json", "parts/x", "proofs.sqlite", "data/trades/x"):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(b"mine")
    assert local.evict() >= 4
    assert copies(cache) == ["data/trades/x", "parts/x", "seen.json"]
    assert (cache / "proofs.sqlite").exists()
    assert outside.read_bytes() == b"outside"
