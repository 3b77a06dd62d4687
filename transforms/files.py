"""Files that appear whole or not at all, also after a power cut."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO
from uuid import uuid4

from transforms.errors import BusyError, ConfigError, IntegrityError

TEMP_SUFFIX = ".tmp"

_NOT_WRITTEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
MOVE_AWAY = ": move it away, then run it again"
_UNKNOWN_CALL = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Let an error that says that there is no room name the file that finds none."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def new_file(
    path: Path, scratch: Path | None = None, *, durable: bool = True
) -> Iterator[BinaryIO]:
    """Open a file that takes the name `path`, replacing what is there, when the block succeeds.

    Until then it lies in `scratch` (default: beside `path`), which must be on the same file system;
    a killed process leaves garbage only there. `durable` makes file and name survive a power cut.
    """
    scratch = scratch or path.parent
    for folder in (path.parent, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    temp = scratch / f"{path.name}.{uuid4().hex}{TEMP_SUFFIX}"
    try:
        with naming_full_disk(path), temp.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    if durable:
        sync_file(path.parent)


def file_clock(folder: Path) -> float:
    """The time by the clock that gives new files in a folder theirs, in Unix seconds.

    That of a file server may differ from this machine's, which counts where nothing may be written.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError as error:
        if error.errno in _NOT_WRITTEN:
            return time.time()
        raise


def path_version(path: Path | str) -> str:
    """The `file_version` of the file at a path; empty where there is none that can be seen."""
    try:
        return file_version(os.stat(path))  # noqa: PTH116 - of thousands, by their texts
    except OSError:
        return ""


def file_version(stats: os.stat_result) -> str:
    """Text that changes when a file is written or replaced: its time, its size, its inode."""
    return f"{stats.st_mtime_ns}-{stats.st_size}-{stats.st_ino}"


def check_version(descriptor: int, version: str, place: str) -> None:
    """Raise `BusyError` where an open file has another `file_version`."""
    if file_version(os.fstat(descriptor)) != version:
        raise BusyError(f"{place} was replaced while it was read: read it again")


def check_regular(path: Path) -> None:
    """Raise `IntegrityError` if a folder, a pipe or a dangling link stands in place of a file.

    Opening a pipe would wait for a writer. A path without anything passes.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode), "")
    except OSError:
        kind = "a link that leads nowhere" if path.is_symlink() else ""
    if kind:
        raise IntegrityError(f"{path} is {kind}, not a file{MOVE_AWAY}")


def check_utf8(path: Path) -> None:
    """Raise `ConfigError` if a path has bytes that are not UTF-8: documents cannot name it."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the path {str(path)!r} is not UTF-8: name another folder") from error


def check_folder_place(path: Path) -> None:
    """Raise `ConfigError` if a file stands at the place of a folder, or of one above it."""
    path = path.absolute()
    there = next(place for place in (path, *path.parents) if os.path.exists(place))  # noqa: PTH110
    if not there.is_dir():
        raise ConfigError(f"{there} is no folder: name one")


def lock_file(file: IO[Any], *, wait: bool = True) -> None:
    """Lock an open file until it is closed. Raises `BlockingIOError` if nobody is to `wait`."""
    with _naming("flock", file.name):
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def _naming(call: str, path: Path | str) -> Iterator[None]:
    """Let an error of a system call name the call, the file and, if it is unknown, the remedy."""
    try:
        yield
    except OSError as error:
        reason = f"{call}: {error.strerror}"
        if error.errno in _UNKNOWN_CALL:
            reason = f"{reason}: choose a folder on a file system that knows {call}"
        raise OSError(error.errno, reason, str(path)) from error


def sync_file(path: Path) -> None:
    """Make a file's bytes, or a folder's names, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with _naming("fsync", path):
            os.fsync(handle)
    finally:
        os.close(handle)


def link(file: Path, path: Path) -> None:
    """Let a file be at another path, too: on one file system as one file, else as a copy."""
    try:
        path.hardlink_to(file)
    except OSError:
        shutil.copyfile(file, path)


def commit_file(finished: Path, place: Path) -> None:
    """Move a finished file to its place: whole or not at all, whatever happens."""
    place.parent.mkdir(parents=True, exist_ok=True)
    sync_file(finished)
    finished.replace(place)
    sync_file(place.parent)
