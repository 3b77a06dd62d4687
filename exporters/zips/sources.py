"""Where bytes that already lie somewhere are read from: a local file, or an object in a store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, ObjectReader


class ByteSource(Protocol):
    """Bytes that do not change: `size` of them, readable at any offset."""

    @property
    def name(self) -> str:
        """What to call it in a message: a path, or an `s3://` address."""
        ...

    @property
    def size(self) -> int:
        """Its length in bytes."""
        ...

    @property
    def version(self) -> str:
        """Opaque text that changes when the bytes do: a hash, an ETag, a file's time and size."""
        ...

    @property
    def path(self) -> Path | None:
        """The local file, where there is one: the kernel can copy that by itself."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only where the bytes end."""
        ...


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A local file, as long as it was when it was opened."""

    path: Path
    size: int
    version: str

    @classmethod
    def open(cls, path: Path, version: str = "") -> LocalSource:
        """Describe the file at `path`. A `version` known from elsewhere, such as its hash, is kept.

        Raises `FileNotFoundError`.
        """
        stat = path.stat()
        return cls(path, stat.st_size, version or f"{stat.st_mtime_ns}-{stat.st_size}")

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """An object in a store."""

    reader: ObjectReader
    info: ObjectInfo

    @property
    def name(self) -> str:
        """The object's address."""
        return self.reader.describe(self.info.key)

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.info.size

    @property
    def version(self) -> str:
        """The store's version of it."""
        return self.info.version

    @property
    def path(self) -> Path | None:
        """None: an object is no local file."""
        return None

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        return self.reader.read(self.info.key, offset, length)


def read_exactly(source: ByteSource, offset: int, length: int) -> bytes:
    """Return `length` bytes from `offset`; raises `IntegrityError` where the source is shorter."""
    data = source.read(offset, length) if length else b""
    if len(data) != length:
        raise cut_short(source, offset + len(data), offset + length)
    return data


def cut_short(source: ByteSource, found: int, promised: int) -> IntegrityError:
    """The error for a source without the bytes from `found` to `promised`, which are recorded."""
    return IntegrityError(
        f"{source.name} lacks bytes {found} to {promised}, which its directory records: it was "
        "truncated or replaced; make it again from its segments"
    )
