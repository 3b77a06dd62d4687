"""The objects of a warehouse's store as local files: a folder's own, or copies of a bucket's.

Copies lie in this machine's cache under their keys. A copy is hashed while it is written and takes
its name when it is whole. Until SQL reads it, one that is there with the right size is believed.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path

from transforms.duck_files import FOREIGN_LOG, log_beside, remove_log
from transforms.errors import IntegrityError, MissingFileError
from transforms.files import commit_file, naming_full_disk, new_file, path_version
from transforms.objects import StoredFile
from transforms.scratch import exclusive, scratch_folder, sweep_scratch
from transforms.stores.store import (
    CHUNK_BYTES,
    Store,
    asked_together,
    checked_key,
    content_sha256,
    read_as_is,
)
from transforms.verifying.proofs import Proof, Proofs
from transforms.warehouse.manifests.file_names import MISSING

CACHES = Path("~/.cache/strata")
"""Where this machine's folders for buckets are unless something else is said."""

MOST_CACHE_BYTES = 100 * 2**30
"""How many bytes of copies a cache holds unless a setting says otherwise."""

REMEDY = "run strata repair, then strata load"
"""What to do about a file that is missing or damaged."""

_DOWNLOADS = 4


class LocalFiles:
    """The files of `store` on this machine.

    `cache` holds the copies of a bucket's objects; a folder needs none and its cache is not used.
    All processes of the machine may share one cache: they remove the copies that were not used for
    longest beyond `most_bytes`, but none that somebody holds, even where those are more.

    `folder` is where the files lie, under their keys; `proofs` are those of files that were hashed.
    """

    def __init__(self, store: Store, cache: Path, most_bytes: int = MOST_CACHE_BYTES) -> None:
        self.store = store
        self._most_bytes = most_bytes
        # Of thousands of files, again for each snapshot.
        self._as_path = lru_cache(maxsize=16_384)(Path)
        data = store.path("data")
        self._is_folder = data is not None
        self.folder = cache / "copies" if data is None else data.parent
        self._place = str(self.folder)
        self._leases = cache / "leases"
        self._lock = self._leases / "evicting"
        self._scratch = cache / "scratch"
        self.proofs = Proofs(cache / "proofs.sqlite")

    def path(self, file: StoredFile) -> Path:
        """Where the file lies once it is here."""
        return self._as_path(self.place(file))

    def place(self, file: StoredFile) -> str:
        """The same as text: to make a `Path` of each of thousands takes longer than to see it."""
        return f"{self._place}/{checked_key(file.key)}"

    def proof(self, file: StoredFile) -> Proof:
        """The proof of a file in its state, which is empty if the file is missing."""
        place = self.place(file)
        return Proof(place, path_version(place), file.sha256)

    def bring(
        self, files: Iterable[StoredFile], *, recheck: bool = False, prove: bool = False
    ) -> list[Path]:
        """Make all of `files` local, as `hold` does, but let them be removed again afterwards."""
        targets = tuple(files)
        with self.hold(targets, recheck=recheck, prove=prove):
            return [*map(self.path, targets)]

    @contextmanager
    def hold(
        self, files: Iterable[StoredFile], *, recheck: bool = False, prove: bool = False
    ) -> Iterator[None]:
        """Make all of `files` local and keep them so until the block ends or the process dies.

        Those of a bucket that lack here, or have another size, are downloaded. `prove` also hashes
        files that changed since they were hashed or written, `recheck` all. Both replace damaged
        copies.

        Raises `MissingFileError` where the store lacks one, `IntegrityError` where it holds other
        bytes, and what the store and the machine raise (`ConnectionError`, `OSError`): what arrived
        whole before stays, nothing else does.
        """
        unique_files = list(dict.fromkeys(files))
        if self._is_folder:
            for file, problem in self._problems(unique_files, recheck=recheck, prove=prove):
                raise self._error(file, problem)
            yield
            return
        with scratch_folder(self._leases) as lease:
            held = lease / "held"
            # Who evicts sees the lease, or has done so before it is asked what is here.
            with exclusive(self._lock), naming_full_disk(held):
                held.write_text("".join(f"{file.key}\n" for file in unique_files))
            problems = self._problems(unique_files, recheck=recheck, prove=prove)
            lacking = [file for file, _ in problems]
            for file in {*unique_files}.difference(lacking):  # they are used now
                path = self.path(file)
                # Readers that cache by the time of the last write need not read it again.
                os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
            if lacking:
                self.evict(room=sum(file.size for file in lacking))
                sweep_scratch(self._scratch)
                with scratch_folder(self._scratch) as scratch:
                    copy = partial(self._copy, scratch)
                    [*asked_together(self.store, copy, lacking, _DOWNLOADS)]
            yield

    def adopt(self, file: StoredFile, source: Path) -> None:
        """Move `source`, just built and stored as `file`, to where its copy lies: no download.

        `source` must be on the file system of the cache. Nothing happens where the store is a
        folder. Hold the file afterwards to be sure of it.
        """
        if not self._is_folder:
            os.utime(source)  # used now: nothing that was used earlier stays in its place
            commit_file(source, self.path(file))

    def evict(self, room: int = 0) -> int:
        """Remove copies, least recently used first, until `room` is left; returns the bytes freed.

        What is held counts and stays.
        """
        if self._is_folder:
            return 0
        freed = 0
        with exclusive(self._lock):
            sweep_scratch(self._leases)  # of processes that died
            held: set[Path] = set()
            for lease in self._leases.glob("*/held"):
                with suppress(FileNotFoundError):  # it ended just now
                    held.update(self.folder / key for key in lease.read_text().splitlines())
            stats = {path: path.lstat() for path in self.folder.rglob("*") if not path.is_dir()}
            excess = sum(each.st_size for each in stats.values()) + room - self._most_bytes
            for path in sorted(stats.keys() - held, key=lambda path: stats[path].st_atime_ns):
                if freed >= excess:
                    break
                path.unlink()
                freed += stats[path].st_size
        return freed

    def _problems(
        self, files: Sequence[StoredFile], *, recheck: bool, prove: bool
    ) -> Iterator[tuple[StoredFile, str]]:
        """Yield what is wrong with files here; hashes are remembered."""
        proofs = [self.proof(file) for file in files] if prove else [None] * len(files)
        known = self.proofs.find_each([*filter(None, proofs)]) if prove else proofs
        for file, proof, found in zip(files, proofs, known, strict=True):
            is_hashed = recheck or (prove and not found)
            if problem := self._problem(file, recheck=is_hashed):
                yield file, problem
            elif is_hashed and proof:
                self.proofs.keep(proof)

    def _problem(self, file: StoredFile, *, recheck: bool) -> str:
        """What is wrong with a file here by its size, which costs nothing, or by its hash."""
        place = self.place(file)
        try:
            size = os.stat(place).st_size  # noqa: PTH116 - see `place`
        except (FileNotFoundError, NotADirectoryError):
            return MISSING
        if file.key.endswith(".duckdb") and (log := log_beside(place)):
            return f"has {log.name} beside it: {FOREIGN_LOG}"
        if size != file.size:
            return f"is damaged: it has {size} bytes and the warehouse's log names {file.size}"
        if recheck and content_sha256(self.path(file)) != file.sha256:
            return f"is damaged: it does not hash to {file.sha256}"
        return ""

    def _copy(self, scratch: Path, file: StoredFile) -> None:
        digest, size = hashlib.sha256(), 0
        remove_log(self.path(file))
        with new_file(self.path(file), scratch) as copy:
            try:
                while chunk := read_as_is(self.store, file.key, size, CHUNK_BYTES):
                    digest.update(chunk)
                    copy.write(chunk)
                    size += len(chunk)
                    if len(chunk) < CHUNK_BYTES:
                        break  # the end, without asking for what lies behind it
            except FileNotFoundError as error:
                raise self._error(file, MISSING) from error
            if (size, digest.hexdigest()) != (file.size, file.sha256):
                raise IntegrityError(
                    f"{self.store.describe(file.key)} gave {size} bytes that hash to "
                    f"{digest.hexdigest()}, where the warehouse's log names {file.size} bytes that "
                    f"hash to {file.sha256}: try again; if it stays so, {REMEDY}"
                )
        self.proofs.keep(self.proof(file))

    def _error(self, file: StoredFile, problem: str) -> IntegrityError:
        kind = MissingFileError if problem == MISSING else IntegrityError
        return kind(f"{self.store.describe(file.key)} {problem}: {REMEDY}")
