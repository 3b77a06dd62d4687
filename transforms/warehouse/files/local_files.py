"""The objects of a warehouse's store as local files: a folder's own, or copies of a bucket's.

Copies lie in this machine's cache under their keys. A copy is hashed while it is written and takes
its name when it is whole, so one that is there with the right size is believed.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Event
from typing import BinaryIO

from transforms.duck_files import FOREIGN_LOG, log_beside, remove_log
from transforms.errors import ConfigError, IntegrityError, MissingFileError
from transforms.files import commit_file, new_file
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.stores.store import CHUNK_BYTES, Store, checked_key, content_sha256, read_as_is
from transforms.warehouse.files.leases import Leases

CACHES = Path("~/.cache/strata")
"""Where this machine's folders for buckets are unless something else is said."""

MOST_CACHE_BYTES = 100 * 2**30
"""How many bytes of copies a cache holds unless a setting says otherwise."""

_FOLDERS = ("manifests", "data", "index", "state", "spam")
_REMEDIES = {
    "index": "run strata repair, which makes it again",
    "spam": "run strata repair, then strata load",
}
_DOWNLOADS = 4


class LocalFiles:
    """The files of `store` on this machine.

    `cache` holds the copies of a bucket's objects; a folder needs none and its cache is not used.
    All processes of the machine may share one cache: they remove the copies that were not used for
    longest beyond `most_bytes`, but none that somebody holds, even where those are more.
    """

    def __init__(self, store: Store, cache: Path, most_bytes: int = MOST_CACHE_BYTES) -> None:
        self._store = store
        self._cache = cache
        self._most_bytes = most_bytes
        # Of thousands of files, again for each snapshot.
        self._own_path = lru_cache(maxsize=16_384)(store.path)
        self._copies = store.path(_FOLDERS[0]) is None
        self._leases = Leases(cache / "leases")
        self._scratch = cache / "scratch"

    def path(self, file: StoredFile) -> Path:
        """Where the file lies once it is here. Raises `ConfigError` for a key that has no copy."""
        own = self._own_path(file.key)
        if own is not None:
            return own
        if file.key.split("/")[0] not in _FOLDERS:
            raise ConfigError(f"{file.key!r} is no key of {', '.join(_FOLDERS)}: it has no copy")
        return self._cache / checked_key(file.key)

    def bring(self, files: Iterable[StoredFile], *, recheck: bool = False) -> None:
        """Make all of `files` local, as `hold` does, but let them be removed again afterwards."""
        with self.hold(files, recheck=recheck):
            pass

    @contextmanager
    def hold(self, files: Iterable[StoredFile], *, recheck: bool = False) -> Iterator[None]:
        """Make all of `files` local and keep them so until the block ends or the process dies.

        Those of a bucket that lack here, or have another size, are downloaded. `recheck` also
        hashes what is here, and replaces damaged copies.

        Raises `MissingFileError` where the store lacks one, `IntegrityError` where it holds other
        bytes, and what the store and the machine raise (`ConnectionError`, `OSError`): what arrived
        whole before stays, nothing else does.
        """
        unique_files = list(dict.fromkeys(files))
        if not self._copies:
            for file in unique_files:
                self._check_own(file, recheck=recheck)
            yield
            return
        with self._leases.lease(unique_files):
            lacking = [f for f in unique_files if not self._is_here(f, recheck=recheck)]
            if lacking:
                self.evict()  # the lease counts for what is not here yet
                self._download(lacking)
            yield

    def adopt(self, file: StoredFile, source: Path) -> None:
        """Move `source`, just built and stored as `file`, to where its copy lies: no download.

        `source` must be on the file system of the cache. Nothing happens where the store is a
        folder. Hold the file afterwards to be sure of it.
        """
        if not self._copies:
            return
        os.utime(source)  # used now: nothing that was used earlier stays in its place
        remove_log(self.path(file))
        commit_file(source, self.path(file))
        self.evict()

    def evict(self) -> int:
        """Remove copies beyond `most_bytes`, least recently used first; returns the bytes freed.

        What is held counts and stays. Raises `ConfigError` where the cache is a folder that holds a
        warehouse: its files are no copies.
        """
        if not self._copies:
            return 0
        if (self._cache / "log").is_dir():
            raise ConfigError(
                f"the cache {self._cache} of {self._store.describe()} is the folder of another "
                "warehouse: name another folder for the cache"
            )
        freed = 0
        with self._leases.pausing() as leased:
            free = [file for file in self._listed() if file[1] not in leased]
            excess = sum(leased.values()) + sum(size for _, _, size in free) - self._most_bytes
            for _, key, size in sorted(free):
                if freed >= excess:
                    break
                (self._cache / key).unlink(missing_ok=True)
                freed += size
        return freed

    def _check_own(self, file: StoredFile, *, recheck: bool) -> None:
        """Compare a folder's own file with its size, which costs nothing, or with its hash.

        A log beside it is none of ours.
        """
        path = self.path(file)
        try:
            size = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._missing(file) from error
        if log := log_beside(path):
            raise IntegrityError(f"{log}: {FOREIGN_LOG}: run strata repair, which removes the log")
        if size != file.size:
            problem = f"has {size} bytes and the warehouse's log names {file.size}"
        elif recheck and content_sha256(path) != file.sha256:
            problem = f"does not hash to {file.sha256}"
        else:
            return
        raise IntegrityError(
            f"{self._store.describe(file.key)} {problem}: it is damaged, run strata repair and "
            "load its segments again"
        )

    def _is_here(self, file: StoredFile, *, recheck: bool) -> bool:
        """Whether a copy can be believed; if so, it counts as used now."""
        path = self.path(file)
        with suppress(FileNotFoundError):
            stats = path.stat()
            if log_beside(path):
                return False
            if stats.st_size == file.size and not (recheck and content_sha256(path) != file.sha256):
                # Readers that cache by the time of the last write need not read it again.
                now = time.time_ns()
                os.utime(path, ns=(now, stats.st_mtime_ns))
                return True
        return False

    def _listed(self) -> Iterator[tuple[int, str, int]]:
        """The copies: when each was last used, its key, its size."""
        folders = [*_FOLDERS]
        while folders:
            folder = folders.pop()
            with suppress(FileNotFoundError), os.scandir(self._cache / folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        stats = entry.stat()
                        yield stats.st_atime_ns, f"{folder}/{entry.name}", stats.st_size
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(f"{folder}/{entry.name}")

    def _download(self, lacking: list[StoredFile]) -> None:
        sweep_scratch(self._scratch)
        stop = Event()
        with scratch_folder(self._scratch) as scratch, ThreadPoolExecutor(_DOWNLOADS) as pool:
            running = [pool.submit(self._copy, file, scratch, stop) for file in lacking]
            try:
                for future in as_completed(running):
                    future.result()
            finally:  # the others need not go on where one has failed
                stop.set()
                pool.shutdown(cancel_futures=True)

    def _copy(self, file: StoredFile, scratch: Path, stop: Event) -> None:
        remove_log(self.path(file))
        with new_file(self.path(file), scratch) as copy:
            result = self._fetched(file, copy, stop)
            if result != (file.size, file.sha256):  # damaged on the way, perhaps: once more
                copy.seek(0)
                copy.truncate()
                result = self._fetched(file, copy, stop)
            if result != (file.size, file.sha256):
                raise IntegrityError(
                    f"{self._store.describe(file.key)} gave {result[0]} bytes that hash to "
                    f"{result[1]}, where the warehouse's log names {file.size} bytes that hash to "
                    f"{file.sha256}: try again, in case they were damaged on the way; if it stays "
                    "so, put the object back from a backup, or run strata repair and load its "
                    "segments again"
                )

    def _fetched(self, file: StoredFile, copy: BinaryIO, stop: Event) -> tuple[int, str]:
        digest, start = hashlib.sha256(), 0
        try:
            while chunk := read_as_is(self._store, file.key, start, CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
                start += len(chunk)
                if stop.is_set():
                    raise CancelledError
                if len(chunk) < CHUNK_BYTES:
                    break  # the end, without asking for what lies behind it
        except FileNotFoundError as error:
            raise self._missing(file) from error
        return start, digest.hexdigest()

    def _missing(self, file: StoredFile) -> MissingFileError:
        remedy = _REMEDIES.get(file.key.partition("/")[0], "run strata repair, then strata load")
        return MissingFileError(f"{self._store.describe(file.key)} is missing: {remedy}")
