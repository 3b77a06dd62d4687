"""One published ZIP, or many at once, from an archive into a folder.

Bytes go to a file that is named by the hash that they should have, so whoever is killed goes on
where he stopped. However they came together, they are hashed before the ZIP gets its name.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.exports.copies import DamagedCopyError
from transforms.errors import BusyError
from transforms.files import commit_file, naming_full_disk
from transforms.stores.store import content_sha256
from transforms.stores.streaming import Body, open_object

_FRUITLESS = 4  # attempts in a row that bring no byte
_READINGS = 2  # of a ZIP that arrives whole, and is another one than the index says

_SHA256 = re.compile(r"[0-9a-f]{64}")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class StoppedError(Exception):
    """Another download failed, so nobody waits for this one any more."""


@dataclass(slots=True)
class Downloads:
    """Downloads from `source`; unfinished files lie in `scratch`, on the file system of targets.

    `advance` gets the bytes that have just arrived.
    """

    source: Archive
    scratch: Path
    advance: Callable[[int], object]
    stopped: threading.Event = field(default_factory=threading.Event)

    def partial(self, entry: Entry) -> Path:
        """What has arrived of a ZIP so far.

        Raises `DamagedCopyError` where its hash is none: it becomes the name of a file.
        """
        if not _SHA256.fullmatch(entry.sha256):
            raise self._damaged(entry, f"cannot hash to {entry.sha256!r}, as the index says")
        return self.scratch / f"{entry.sha256}.part"

    def held(self, entry: Entry) -> int:
        """How many bytes of a ZIP are there from before."""
        path = self.partial(entry)
        return min(path.stat().st_size, entry.bytes) if path.exists() else 0

    def fetch(self, entry: Entry, target: Path) -> None:
        """Bring a ZIP to `target`: whole, and with the hash that the index says, or not at all.

        Raises `DamagedCopyError` where the archive does not have it, or other bytes than its index
        says; `ConnectionError`, other errors of the machine.
        """
        partial = self.partial(entry)
        for retries in reversed(range(_READINGS)):
            self._complete(entry, partial)
            digest = content_sha256(partial)
            if digest == entry.sha256:
                commit_file(partial, target)
                return
            self._begin_anew(partial)
            if not retries:
                raise self._damaged(entry, f"hashes to {digest}, the index says {entry.sha256}")

    def _complete(self, entry: Entry, partial: Path) -> None:
        """Ask for the bytes that lack, as long as some arrive."""
        fruitless = 0
        while (offset := self.held(entry)) < entry.bytes:
            if self.stopped.is_set():
                raise StoppedError
            try:
                self._append(entry, partial, offset)
            except FileNotFoundError as error:
                raise self._damaged(entry, "is not there, but the index names it") from error
            except (BusyError, ConnectionError):  # replaced meanwhile, or out of reach
                fruitless = fruitless + 1 if self.held(entry) == offset else 0
                if fruitless == _FRUITLESS:
                    raise

    def _append(self, entry: Entry, partial: Path, offset: int) -> None:
        body = open_object(self.source.store, self.source.key(entry.path), offset)
        with closing(body), naming_full_disk(partial):
            if body.size not in (None, entry.bytes):
                raise self._damaged(entry, f"has {body.size} bytes, the index says {entry.bytes}")
            self._store(entry, partial, offset, body)
        if self.held(entry) == offset:
            raise ConnectionError(f"no bytes of {self.source.place(entry.path)} arrive: try later")

    def _store(self, entry: Entry, partial: Path, offset: int, body: Body) -> None:
        # Unbuffered: a killed process leaves what has arrived.
        mode = "r+b" if offset else "wb"
        with partial.open(mode, buffering=0) as file:
            if body.start < offset:
                file.truncate(body.start)
                self.advance(body.start - offset)
            file.seek(body.start)
            self._write(entry, body, file.write)

    def _write(self, entry: Entry, body: Body, write: Callable[[memoryview], int]) -> None:
        at = body.start
        for piece in body.pieces:
            rest = memoryview(piece)
            at += len(rest)
            if at > entry.bytes:
                raise self._damaged(entry, f"has more than the {entry.bytes} bytes of the index")
            while rest:  # a disk that is nearly full takes a part of it first
                rest = rest[write(rest) :]
            self.advance(len(piece))
            if self.stopped.is_set():
                raise StoppedError

    def _begin_anew(self, partial: Path) -> None:
        if partial.exists():
            self.advance(-partial.stat().st_size)
        partial.unlink(missing_ok=True)

    def _damaged(self, entry: Entry, what: str) -> DamagedCopyError:
        place = self.source.place(entry.path)
        remedy = "the archive is damaged there or just being changed: try again, or tell its keeper"
        return DamagedCopyError(place, f"{what}: {remedy}")

    def on_each(
        self, work: Callable[[_Item], _Result], items: Iterable[_Item], jobs: int
    ) -> list[_Result]:
        """Work on items, `jobs` at a time, in order; an error stops all others."""
        with ThreadPoolExecutor(jobs) as pool:
            try:
                return list(pool.map(work, items))
            except BaseException:
                self.stopped.set()
                raise
