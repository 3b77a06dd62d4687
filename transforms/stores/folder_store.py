"""A folder as a store: create-only by hard link, compare-and-swap by rename under a short lock.

A new file is written in a hidden folder on the same file system, synced, and only then given its
name, so nobody ever sees half of it, also after a power cut. The file system must know hard links
and `flock`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from transforms.errors import ConfigError
from transforms.files import (
    check_folder_place,
    check_regular,
    check_utf8,
    check_version,
    file_clock,
    file_version,
    lock_file,
    naming_full_disk,
    new_file,
    sync_file,
)
from transforms.objects import ObjectInfo
from transforms.stores.folder_tree import (
    LOCK,
    check_file_system,
    describe_file,
    make_folder,
    sweep,
    walk,
)
from transforms.stores.store import (
    SCRATCH,
    LostRaceError,
    PutResult,
    Versioned,
    checked_key,
    conflict,
    content_chunks,
    content_sha256,
    not_as_announced,
)

# Nothing is there, a name that no file can have, a link that leads to itself.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


class FolderStore:
    """The files below `root`; the first write makes the folder.

    Raises `ConfigError` for a path that is not UTF-8.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        check_utf8(self._root)
        self._scratch = self._root / SCRATCH
        self._ready = False

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the files whose key starts with `prefix`. A missing root is a `ConfigError`."""
        if not self._root.is_dir():
            check_folder_place(self._root)
            raise ConfigError(f"the folder {self._root} does not exist: create it or name another")
        yield from walk(self._root, "", prefix)

    def head(self, key: str) -> ObjectInfo | None:
        """Describe one file, or None where there is none."""
        try:
            # Exports ask for 10,000 objects at once: making a `Path` of each takes longer.
            stats = os.stat(f"{self._root}/{checked_key(key)}")  # noqa: PTH116
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise
        return describe_file(key, stats) if stat.S_ISREG(stats.st_mode) else None

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """Return `length` bytes from `start`; past the end there are none."""
        with self._present(key).open("rb") as file:
            if version is not None:
                check_version(file.fileno(), version, self.describe(key))
            file.seek(start)
            return file.read() if length is None else file.read(length)

    def get(self, key: str) -> Versioned:
        """The file's bytes and its version; see `transforms.stores.store.Store`."""
        with self._present(key).open("rb") as file:
            return file.read(), file_version(os.fstat(file.fileno()))

    def fetch(self, key: str, path: Path) -> None:
        """Copy the whole file to `path`, which stays as it was if that fails."""
        with self._present(key).open("rb") as file, new_file(path, durable=False) as copy:
            shutil.copyfileobj(file, copy)

    def describe(self, key: str = "") -> str:
        """The file's path."""
        return f"{self._root}/{key}" if key else str(self._root)

    def path(self, key: str) -> Path:
        """The file, whether or not it is there."""
        return self._root / checked_key(key)

    def now(self) -> float:
        """The time of the folder's file system."""
        return file_clock(self._scratch if self._scratch.is_dir() else self._root)

    def put_if_absent(
        self,
        key: str,
        source: Path | bytes,
        *,
        content_type: str,  # noqa: ARG002 - a folder keeps no headers
        sha256: str,
        immutable: bool,  # noqa: ARG002
        take: bool = False,
    ) -> PutResult:
        """Create the file, or find the same bytes there; see `transforms.stores.store.Store`."""
        target = self.path(key)
        if not target.exists():
            self._make_scratch()
            with suppress(FileExistsError):  # another writer was faster: its bytes decide below
                if take and isinstance(source, Path) and self._taken(source, target):
                    return PutResult.CREATED
                with self._staged(source, sha256) as staged:
                    return self._link(staged, target)
        check_regular(target)  # a dangling link does not exist for the check above
        digest = content_sha256(target)
        if digest != sha256:
            raise conflict(str(target), digest, sha256)
        return PutResult.IDENTICAL

    def put_if_match(
        self,
        key: str,
        data: Path | bytes,
        expected_version: str | None,
        content_type: str,  # noqa: ARG002
        *,
        sha256: str | None = None,
    ) -> str:
        """Replace the file if it has `expected_version`; see `transforms.stores.store.Store`."""
        target = self.path(key)
        self._make_scratch()
        with self._staged(data, sha256) as staged, self._locked():
            check_regular(target)
            info = self.head(key)
            if (info and info.version) != expected_version:
                raise LostRaceError(f"{target} was changed by another writer: read it again")
            if info is None:
                try:
                    self._link(staged, target)
                except FileExistsError as error:  # by put_if_absent, which takes no lock
                    raise LostRaceError(f"{target} was created by another writer") from error
            else:
                # Two writes in one tick of the clock must differ.
                later = max(staged.stat().st_mtime_ns, target.stat().st_mtime_ns + 1)
                os.utime(staged, ns=(later, later))
                staged.replace(target)
                sync_file(target.parent)
            return describe_file(key, target.stat()).version

    def _present(self, key: str) -> Path:
        path = self.path(key)
        if not path.is_file():
            check_regular(path)
            raise FileNotFoundError(errno.ENOENT, "There is no such object", str(path))
        return path

    def delete(self, key: str) -> None:
        """Remove the file; an absent one is no error."""
        target = self.path(key)
        with suppress(FileNotFoundError, NotADirectoryError):
            target.unlink()
            sync_file(target.parent)

    def _taken(self, source: Path, target: Path) -> bool:
        """Move the file to its place; False where that cannot be: another file system."""
        sync_file(source)
        try:
            self._link(source, target)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                return False
            raise
        source.unlink()  # who wrote it again would write the object
        return True

    def _link(self, staged: Path, target: Path) -> PutResult:
        make_folder(target.parent)
        os.link(staged, target)
        sync_file(target.parent)
        return PutResult.CREATED

    @contextmanager
    def _staged(self, content: Path | bytes, sha256: str | None) -> Iterator[Path]:
        """Copy `content` to a synced hidden file that is gone afterwards, whatever happens."""
        staged = self._scratch / uuid.uuid4().hex
        digest = hashlib.sha256()
        try:
            with naming_full_disk(staged), staged.open("xb") as file:
                for chunk in content_chunks(content):
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            if sha256 is not None and sha256 != digest.hexdigest():
                raise not_as_announced(content, digest.hexdigest(), sha256)
            yield staged
        finally:
            staged.unlink(missing_ok=True)

    def _make_scratch(self) -> None:
        """Make the hidden folder; once, try its file system and sweep what killed writers left."""
        make_folder(self._scratch)
        if not self._ready:
            check_file_system(self._scratch)
            sweep(self._scratch)
            self._ready = True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the store's lock: for a comparison and a rename, never for a copy."""
        with (self._scratch / LOCK).open("wb") as file:
            lock_file(file)
            yield
