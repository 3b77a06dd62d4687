"""Parts that are checked before a byte of them is served.

Splicing copies bytes and would not notice that one has flipped. So every part is read through once
by each process, when it is first needed: a published ZIP against the SHA-256 in the index of the
archive, a local one against the CRC-32 in its directory. It is read again once its file is another
(time, size or ETag differ). What a disk loses later without a trace, the unzip of the client tells.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.stores.store import CHUNK_BYTES, content_sha256
from exporters.zips.inflate import read_csv
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.sources import ByteSource, LocalSource, ObjectSource
from transforms.errors import IntegrityError

_REMEMBERED = 50_000

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Memory(Generic[_Key, _Value]):
    """The values made most recently, by key; safe among threads."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """The value of a key, made now if it is not remembered; an error is not remembered."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True)
class CheckedSource:
    """A source that is checked before its first byte is read."""

    inner: ByteSource
    check: Callable[[], None]
    _done: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        """The inner source's name."""
        return self.inner.name

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.inner.size

    @property
    def version(self) -> str:
        """Its SHA-256, so that the same bytes have the same tag wherever they lie."""
        return self.inner.version

    @property
    def path(self) -> Path | None:
        """None: the kernel would copy it unchecked."""
        return None

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`. Raises `IntegrityError` for a damaged part."""
        if not self._done.is_set():
            self.check()
            self._done.set()
        return self.inner.read(offset, length)


class CheckedParts:
    """What one process knows of parts: their directories, and which it found intact."""

    def __init__(self) -> None:
        self._directories: Memory[tuple[str, str], tuple[PartRef, ...]] = Memory()
        self._hashes: Memory[tuple[str, str], str] = Memory()
        self._intact: Memory[tuple[str, str, str], None] = Memory()

    def published(self, archive: Archive, entry: Entry) -> tuple[PartRef, ...]:
        """The parts of a published ZIP. Raises `IntegrityError` where its directory is damaged."""
        source = archive.source(entry)
        key = (source.name, entry.sha256)
        parts = self._directories.get(key, lambda: read_parts(source))
        checked = CheckedSource(source, lambda: self._check_published(source, entry))
        return tuple(replace(part, source=checked) for part in parts)

    def local(self, path: Path) -> tuple[PartRef, ...]:
        """The parts of a ZIP that waits to be published. Raises `FileNotFoundError`."""
        found = LocalSource.open(path)
        key = (found.name, found.version)
        source = LocalSource.open(path, self._hashes.get(key, lambda: content_sha256(path)))
        parts = self._directories.get(key, lambda: read_parts(source))
        intact = (*key, "")

        def check() -> None:
            self._intact.get(intact, lambda: _check_text(parts))

        return tuple(replace(part, source=CheckedSource(source, check)) for part in parts)

    def _check_published(self, source: ObjectSource, entry: Entry) -> None:
        held = source.reader.head(source.info.key)
        if held is None or held.size != entry.bytes:
            raise IntegrityError(
                f"{source.name} should have {entry.bytes} bytes, says the archive's index, but "
                f"{f'has {held.size}' if held else 'is not there'}: publish its segments again"
            )
        key = (source.name, held.version, entry.sha256)
        self._intact.get(key, lambda: _check_hash(source, entry.sha256))


def _check_hash(source: ByteSource, sha256: str) -> None:
    digest = hashlib.sha256()
    for offset in range(0, source.size, CHUNK_BYTES):
        digest.update(source.read(offset, CHUNK_BYTES))
    if digest.hexdigest() != sha256:
        raise IntegrityError(
            f"{source.name} hashes to {digest.hexdigest()}, the archive's index says {sha256}: "
            "restore the file, or replace it and give the reason"
        )


def _check_text(parts: tuple[PartRef, ...]) -> None:
    for part in parts:
        for _ in read_csv(part.source, part.member):
            pass
