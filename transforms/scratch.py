"""Scratch folders: all unfinished files lie in one, so a kill leaves garbage nowhere else."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transforms.errors import BusyError

_LOCK = ".lock"
_LOCK_POLL_SECONDS = 0.02


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A folder of this process's own, removed at the end; it is locked for as long as it lives."""
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / _LOCK).exists():
                continue  # a sweep took the folder for an abandoned one before it was locked
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def sweep_scratch(parent: Path) -> int:
    """Remove the scratch folders whose process is gone; returns how many there were."""
    removed = 0
    for folder in parent.glob("run-*"):
        try:
            with (folder / _LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        except FileNotFoundError:
            # Made a moment ago and not locked yet, or removed by someone else just now.
            continue
        except BlockingIOError:
            continue
    return removed


@contextmanager
def exclusive(path: Path, *, wait_seconds: float = 120.0) -> Iterator[None]:
    """Hold a lock between processes of this machine. Raises `BusyError` after `wait_seconds`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_seconds
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise BusyError(
                        f"another process has held {path} for {wait_seconds:.0f} seconds: "
                        "look for a stuck load, then try again"
                    ) from error
                time.sleep(_LOCK_POLL_SECONDS)
        yield
