"""Folders as trees of objects: tried, listed in the order of keys, made to survive a power cut."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from transforms.errors import ConfigError
from transforms.files import file_clock, file_version, lock_file, sync_file
from transforms.objects import ObjectInfo
from transforms.stores.store import SCRATCH

LOCK = "lock"
"""The name of the lock file among the unfinished files."""

_ABANDONED_SECONDS = 24 * 3600


def describe_file(key: str, stats: os.stat_result) -> ObjectInfo:
    """A file as an object; see `file_version`."""
    return ObjectInfo(key, stats.st_size, file_version(stats), stats.st_mtime)


def walk(folder: Path, above: str, prefix: str) -> Iterator[ObjectInfo]:
    """Yield files in the order of their whole keys, holding one folder's names at a time."""
    with os.scandir(folder) as entries:
        # A folder sorts as its key begins, with its slash: "a-b" comes before "a/".
        names = sorted(above + entry.name + ("/" if entry.is_dir() else "") for entry in entries)
    here, length = f"{folder}/", len(above)
    for name in names:
        if name.endswith("/"):
            if name != f"{SCRATCH}/" and (name.startswith(prefix) or prefix.startswith(name)):
                yield from walk(folder / name[length:], name, prefix)
        elif name.startswith(prefix):
            # A name that leads nowhere (any more) is no object.
            with suppress(FileNotFoundError):
                # To make a `Path` of each of very many takes longer than to ask for it.
                yield describe_file(name, os.stat(here + name[length:]))  # noqa: PTH116


def sweep(scratch: Path) -> None:
    """Delete what killed writers left behind; a living one touches its file all the time."""
    oldest = file_clock(scratch) - _ABANDONED_SECONDS
    for entry in scratch.iterdir():
        with suppress(FileNotFoundError):  # its writer has just finished
            # A folder there is that of somebody who fetches.
            if entry.name != LOCK and entry.is_file() and entry.stat().st_mtime < oldest:
                entry.unlink()


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each name synced, so that it survives a power cut.

    Raises `ConfigError` where a file stands in its place.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise ConfigError(f"{folder} is a file where a folder is needed: move it away") from error
    sync_file(folder.parent)


_CANNOT = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


def check_file_system(scratch: Path) -> None:
    """Raise `ConfigError` where there are no hard links or no `flock`.

    Works on files of its own in `scratch`. Errors of the machine pass through.
    """
    first, second = (scratch / f"probe-{uuid4().hex}" for _ in range(2))
    try:
        first.touch()
        os.link(first, second)
        with first.open("rb") as file:
            lock_file(file)
    except OSError as error:
        if error.errno in _CANNOT:
            raise ConfigError(
                f"the file system of {scratch.parent} cannot hold a warehouse or an archive: it "
                "knows no hard links, or no flock. Nothing was written; choose a folder on another "
                "file system, or a bucket"
            ) from error
        raise
    finally:
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)
