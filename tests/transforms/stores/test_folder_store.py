"""What only a folder can do wrong."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from tests.mounts_kit import other_file_system
from tests.waiting import wait_until
from transforms.errors import ConfigError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import SCRATCH, LostRaceError, PutResult


def put(store: FolderStore, key: str, content: bytes | Path) -> PutResult:
    data = content if isinstance(content, bytes) else content.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return store.put_if_absent(key, content, content_type="", sha256=digest, immutable=True)


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The kernel refuses to write files of more than `size` bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_finds_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    put(store, "before", b"1")
    with no_file_above(1000), pytest.raises(OSError, match="too large"):
        put(store, "x", bytes(5000))
    with no_file_above(1000), pytest.raises(OSError, match="too large"):
        store.put_if_match("y", bytes(5000), None, "")
    assert files_below(tmp_path) == ["before"]
    assert put(store, "x", bytes(5000)) is PutResult.CREATED


def test_a_swap_that_finds_no_room_leaves_the_old_object(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    version = store.put_if_match("index", b"old", None, "")
    with no_file_above(1000), pytest.raises(OSError, match="too large"):
        store.put_if_match("index", bytes(5000), version, "")
    assert store.read("index") == b"old"
    assert store.put_if_match("index", b"new", version, "") != version


def test_a_download_that_finds_no_room_leaves_the_older_copy(tmp_path: Path) -> None:
    store, copy = FolderStore(tmp_path / "store"), tmp_path / "copy"
    put(store, "x", bytes(5000))
    copy.write_bytes(b"older")
    with no_file_above(1000), pytest.raises(OSError, match="too large"):
        store.fetch("x", copy)
    assert copy.read_bytes() == b"older"
    assert files_below(tmp_path) == ["copy", "store/x"]


def test_a_writer_killed_in_the_middle_leaves_no_object(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.truncate(2**40)  # zeros, which take no room before they are copied
    code = (
        "import sys; from pathlib import Path\n"
        "from transforms.stores.folder_store import FolderStore\n"
        "FolderStore(Path(sys.argv[1])).put_if_absent('x', Path(sys.argv[2]), content_type='',"
        " sha256='', immutable=True)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "store"), str(source)])
    scratch = tmp_path / "store" / SCRATCH
    wait_until(lambda: any(path.stat().st_size > 0 for path in scratch.glob("*")))
    writer.kill()
    writer.wait()
    store = FolderStore(tmp_path / "store")
    assert list(store.list()) == []
    assert put(store, "x", b"half and half") is PutResult.CREATED


def test_what_killed_writers_left_is_swept_after_a_day(tmp_path: Path) -> None:
    put(FolderStore(tmp_path), "x", b"1")
    scratch = tmp_path / SCRATCH
    for name, age in (("dead", 25 * 3600), ("alive", 60)):
        (scratch / name).write_bytes(b"half")
        written = (scratch / name).stat().st_mtime - age
        os.utime(scratch / name, (written, written))
    put(FolderStore(tmp_path), "y", b"2")
    assert files_below(tmp_path) == [f"{SCRATCH}/alive", "x", "y"]


def test_the_lock_outlives_the_sweep(tmp_path: Path) -> None:
    FolderStore(tmp_path).put_if_match("index", b"1", None, "")
    os.utime(tmp_path / SCRATCH / "lock", (0, 0))
    put(FolderStore(tmp_path), "x", b"1")
    assert (tmp_path / SCRATCH / "lock").exists()


def test_published_files_can_be_read_by_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        put(FolderStore(tmp_path), "chain/x.zip", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "chain/x.zip").stat().st_mode & 0o777 == 0o644


def test_asking_for_the_time_leaves_nothing_behind(tmp_path: Path) -> None:
    assert FolderStore(tmp_path).now() > FolderStore(tmp_path / "none").now() - 60
    assert list(tmp_path.iterdir()) == []


def test_reading_makes_no_folder(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    assert store.head("x") is None
    assert not (tmp_path / "store").exists()


def test_listing_a_folder_that_is_missing_is_an_error_and_not_an_empty_list(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        list(FolderStore(tmp_path / "typo").list())
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"/file is no folder: name one"):
        list(FolderStore(tmp_path / "file").list())


def test_a_dangling_link_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert list(FolderStore(tmp_path).list()) == []


def test_swaps_within_one_tick_of_the_clock_have_different_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # only to be fast: ticks last milliseconds
    store = FolderStore(tmp_path)
    versions = [store.put_if_match("index", b"000", None, "")]
    for number in range(1, 100):
        versions.append(store.put_if_match("index", b"%03d" % number, versions[-1], ""))
    assert len(set(versions)) == 100


def test_a_clock_that_is_set_back_brings_no_version_back(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put_if_match("index", b"1", None, "")
    late = 4_000_000_000_000_000_000
    os.utime(tmp_path / "index", ns=(late, late))
    held = store.head("index")
    assert held is not None
    version = store.put_if_match("index", b"2", held.version, "")
    assert version.startswith(f"{late + 1}-1-")
    assert version != held.version


def test_no_swap_is_lost_however_many_writers_contend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # only to contend more often
    store = FolderStore(tmp_path)
    store.put_if_match("count", b"0", None, "")

    def count_up() -> None:
        for _ in range(25):
            while True:
                held = store.head("count")
                assert held is not None
                more = b"%d" % (int(store.read("count")) + 1)
                try:
                    store.put_if_match("count", more, held.version, "")
                    break
                except LostRaceError:
                    continue

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(count_up) for _ in range(6)]:
            done.result()
    assert store.read("count") == b"150"


def test_a_file_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path)
    put(store, "x", b"1")
    steps: list[str] = []

    def recorded(name: str, does: Callable[..., None]) -> None:
        def step(*arguments: object, **options: object) -> None:
            steps.append(name)
            does(*arguments, **options)

        monkeypatch.setattr(os, name, step)

    recorded("fsync", os.fsync)
    recorded("link", os.link)
    put(store, "y", b"2")
    assert steps == ["fsync", "link", "fsync"]  # the bytes, the name, the folder


def test_a_file_of_another_file_system_is_copied(tmp_path: Path) -> None:
    with other_file_system(tmp_path) as other, NamedTemporaryFile(dir=other) as file:
        file.write(b"1")
        file.flush()
        FolderStore(tmp_path).put_if_absent(
            "x",
            Path(file.name),
            content_type="",
            sha256=hashlib.sha256(b"1").hexdigest(),
            immutable=True,
            take=True,
        )
    assert (tmp_path / "x").read_bytes() == b"1"


def test_a_link_that_leads_to_itself_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert FolderStore(tmp_path).head("loop") is None
    assert FolderStore(tmp_path).head("loop/below") is None


def test_a_file_in_the_place_of_a_folder_is_named_and_no_other_writers_work(
    tmp_path: Path,
) -> None:
    (tmp_path / "chain").write_bytes(b"")
    store = FolderStore(tmp_path)
    says = f"{tmp_path / 'chain'} is a file where a folder is needed: move it away"
    with pytest.raises(ConfigError, match=says):
        put(store, "chain/lake/x", b"1")
    with pytest.raises(ConfigError, match=says):
        store.put_if_match("chain/lake/x", b"1", None, "")
