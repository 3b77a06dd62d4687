"""Scratch folders: all unfinished files lie in one, so a kill leaves garbage nowhere else."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from transforms.errors import BusyError
from transforms.files import lock_file

_RUN = "run-"

_LOCK = ".lock"
_LOCK_POLL_SECONDS = 0.02


@contextmanager
def scratch_folder(parent: Path | None, prefix: str = _RUN) -> Iterator[Path]:
    """A folder of this process's own, removed at the end; a lock beside it says that it is in use.

    The lock is made before the folder and removed after it, so that a kill at any moment leaves
    nothing that `sweep_scratch` could not tell from a folder in use. Without a parent it lies in
    `TMPDIR`, which nobody sweeps but the system.
    """
    if parent is None:
        with temporary_folder() as folder:
            yield folder
        return
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        folder = parent / f"{prefix}{uuid4().hex}"
        path = _lock_of(folder)
        with _new_lock(path) as lock:
            lock_file(lock)
            if not path.exists():
                continue  # a sweep took the lock for an abandoned one before it was held
            folder.mkdir()
            try:
                yield folder
            finally:
                _remove(folder)
            return


def _new_lock(path: Path) -> TextIO:
    try:
        return path.open("x")
    except OSError as error:  # nobody knows the name of the lock
        message = f"no file can be created in it ({error.strerror})"
        raise OSError(error.errno, message, str(path.parent)) from error


@contextmanager
def temporary_folder(parent: Path | None = None, prefix: str = "strata-") -> Iterator[Path]:
    """A folder that is removed at the end, as far as that can be done; by default in `TMPDIR`.

    What fails inside is told: `tempfile.TemporaryDirectory` recurses for ever where it may not
    remove what is there.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_scratch(parent: Path, prefix: str = _RUN) -> int:
    """Remove the scratch folders whose process is gone; returns how many there were."""
    removed = 0
    for path in parent.glob(f"{prefix}*{_LOCK}"):
        try:
            with path.open("r") as lock:
                lock_file(lock, wait=False)
                removed += _remove(path.with_suffix(""))
        except (FileNotFoundError, BlockingIOError):
            continue  # removed by its process just now, or in use
    return removed


def _remove(folder: Path) -> bool:
    """Remove a folder, then its lock; one that cannot be removed keeps it, for the next sweep."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        return False
    _lock_of(folder).unlink(missing_ok=True)
    return True


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(_LOCK)


@contextmanager
def exclusive(path: Path, *, wait_seconds: float = 120.0) -> Iterator[None]:
    """Hold a lock between processes of this machine. Raises `BusyError` after `wait_seconds`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_seconds
    with path.open("w") as lock:
        while True:
            try:
                lock_file(lock, wait=False)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise BusyError(
                        f"another process has held {path} for {wait_seconds:.0f} seconds: "
                        "look for a stuck process, then try again"
                    ) from error
                time.sleep(_LOCK_POLL_SECONDS)
        yield
