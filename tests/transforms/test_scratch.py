"""Scratch folders, the lock between processes, and the commit of a finished file."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from transforms.errors import BusyError
from transforms.files import commit_file
from transforms.scratch import exclusive, scratch_folder, sweep_scratch

_HOLD = """
import sys
from pathlib import Path
from transforms.scratch import exclusive, scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder, exclusive(Path(sys.argv[2])):
    (folder / "half a volume").write_bytes(b"x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    """Another process that holds a scratch folder and the lock until it is ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, tmp_path / "scratch", tmp_path / "lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert Path(process.stdout.readline().strip()).is_dir()
    return process


def _end(process: subprocess.Popen[str], *, kill: bool) -> None:
    if kill:
        process.send_signal(signal.SIGKILL)
    process.communicate(input="")
    assert process.returncode == (-signal.SIGKILL if kill else 0)


def test_a_scratch_folder_lives_as_long_as_its_block(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "scratch") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_bytes(b"x")
        assert folder.parent == tmp_path / "scratch"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_folder_that_cannot_be_removed_is_swept_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as failing, scratch_folder(tmp_path) as folder:
        failing.setattr(os, "rmdir", fail)
    assert folder.exists()
    with monkeypatch.context() as failing:
        failing.setattr(os, "rmdir", fail)
        assert sweep_scratch(tmp_path) == 0
    assert sweep_scratch(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_no_scratch_folder(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), scratch_folder(tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_leaves_the_folders_of_the_living(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with scratch_folder(tmp_path / "scratch") as mine:
        assert sweep_scratch(tmp_path / "scratch") == 0
        assert mine.is_dir()
        assert len(_folders(tmp_path / "scratch")) == 2
    _end(holder, kill=False)


def test_a_sweep_removes_what_a_killed_process_left(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    _end(holder, kill=True)
    (left,) = _folders(tmp_path / "scratch")
    assert (left / "half a volume").exists()
    assert sweep_scratch(tmp_path / "scratch") == 1
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("has_folder", [False, True])
def test_whatever_a_kill_leaves_is_swept(tmp_path: Path, *, has_folder: bool) -> None:
    """The lock is made before the folder and removed after it."""
    (tmp_path / "run-1.lock").touch()
    if has_folder:
        (tmp_path / "run-1").mkdir()
        (tmp_path / "run-1" / "file").touch()
    assert sweep_scratch(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def _folders(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if path.is_dir()]


def test_a_sweep_of_nothing_removes_nothing(tmp_path: Path) -> None:
    assert sweep_scratch(tmp_path / "scratch") == 0


def test_a_sweep_at_any_moment_never_takes_a_folder_that_is_in_use(tmp_path: Path) -> None:
    done = Event()

    def sweep() -> None:
        while not done.is_set():
            sweep_scratch(tmp_path)

    with ThreadPoolExecutor(2) as threads:
        sweeps = [threads.submit(sweep) for _ in range(2)]
        try:
            for _ in range(200):
                with scratch_folder(tmp_path) as folder:
                    (folder / "file").write_bytes(b"x")
                    assert (folder / "file").exists()
        finally:
            done.set()
    for swept in sweeps:
        swept.result()


def test_a_lock_is_held_by_one_process_at_a_time(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with (
        pytest.raises(BusyError, match=r"another process has held .*lock for 0 seconds: look for"),
        exclusive(tmp_path / "lock", wait_seconds=0.05),
    ):
        pytest.fail("the lock was given twice")
    _end(holder, kill=False)
    with exclusive(tmp_path / "lock", wait_seconds=0):
        pass


def test_a_killed_process_gives_its_lock_back(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    _end(holder, kill=True)
    with exclusive(tmp_path / "lock", wait_seconds=0):
        pass


def test_an_error_inside_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path / "new" / "lock"):
        raise ZeroDivisionError
    with exclusive(tmp_path / "new" / "lock", wait_seconds=0):
        pass


def test_those_who_wait_for_a_lock_get_it_one_by_one(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("0")

    def increment() -> None:
        for _ in range(20):
            with exclusive(tmp_path / "lock"):
                count.write_text(str(int(count.read_text()) + 1))

    with ThreadPoolExecutor(4) as threads:
        for finished in [threads.submit(increment) for _ in range(4)]:
            finished.result()
    assert count.read_text() == "80"


def test_a_committed_file_stands_at_its_place_only(tmp_path: Path) -> None:
    finished = tmp_path / "finished"
    finished.write_bytes(b"whole")
    commit_file(finished, tmp_path / "new" / "folder" / "place")
    assert (tmp_path / "new" / "folder" / "place").read_bytes() == b"whole"
    assert not finished.exists()


def test_a_commit_replaces_what_stood_there_before(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_bytes(b"old")
    with place.open("rb") as reader:
        (tmp_path / "finished").write_bytes(b"new")
        commit_file(tmp_path / "finished", place)
        assert reader.read() == b"old"
    assert place.read_bytes() == b"new"
