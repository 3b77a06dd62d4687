"""Trying what a folder's file system can do, before anything is written to it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from uuid import uuid4

from transforms.errors import ConfigError
from transforms.files import naming_full_disk

_CANNOT = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


def check_file_system(scratch: Path) -> None:
    """Raise `ConfigError` where hard links, renaming or `flock` do not do what they should.

    Works on files of its own in `scratch`. Errors of the machine pass through.
    """
    first, second = (scratch / f"probe-{uuid4().hex}" for _ in range(2))
    try:
        with naming_full_disk(first):
            first.write_bytes(b"1")
        _check_links(first, second)
        _check_locks(first)
        second.write_bytes(b"2")
        first.replace(second)
        if second.read_bytes() != b"1":
            raise _unfit(scratch, "a file cannot be replaced by renaming another")
    finally:
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)


def _check_links(first: Path, second: Path) -> None:
    try:
        os.link(first, second)
    except OSError as error:
        if error.errno in _CANNOT:
            raise _unfit(first.parent, "it knows no hard links") from error
        raise
    try:
        os.link(first, second)
    except FileExistsError:
        second.unlink()
        return
    raise _unfit(first.parent, "a hard link replaces a file that is there")


def _check_locks(path: Path) -> None:
    with path.open("rb") as first, path.open("rb") as second:
        try:
            fcntl.flock(first, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno in _CANNOT:
                raise _unfit(path.parent, "it knows no flock") from error
            raise
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    raise _unfit(path.parent, "flock locks nobody out")


def _unfit(scratch: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"the file system of {scratch.parent} cannot hold a warehouse or an archive: {reason}. "
        "Nothing was written; choose a folder on another file system, or a bucket"
    )
