"""Where bytes that already lie somewhere are read from: a local file, a store, or memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from transforms.errors import BusyError, IntegrityError
from transforms.files import check_version, file_version
from transforms.objects import ObjectInfo, ObjectReader


class ByteSource(Protocol):
    """Bytes that do not change: `size` of them, readable at any offset."""

    @property
    def name(self) -> str:
        """What to call it in a message: a path, or an `s3://` address."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def version(self) -> str:
        """Opaque text that changes when the bytes do: a hash, an ETag, a file's time and size."""

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only where the bytes end."""


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A local file, as long as it was when it was opened.

    With `state`, a `file_version`, no other file is read in its place: that is a `BusyError`, also
    where it was removed.
    """

    path: Path
    size: int
    version: str
    state: str = ""

    @classmethod
    def open(cls, path: Path, version: str = "") -> LocalSource:
        """Describe the file at `path`. A `version` known from elsewhere, such as its hash, is kept.

        Raises `FileNotFoundError`.
        """
        status = path.stat()
        return cls(path, status.st_size, version or file_version(status))

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError as error:
            if not self.state:
                raise
            raise BusyError(f"{self.path} was removed while it was read: ask again") from error
        try:
            if self.state:
                check_version(descriptor, self.state, self.name)
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """An object in a store; with `state`, its version there, no other bytes are read."""

    reader: ObjectReader
    info: ObjectInfo
    state: str | None = None

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
        """What its bytes are known by, wherever they lie."""
        return self.info.version

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        return self.reader.read(self.info.key, offset, length, version=self.state)


def read_exactly(source: ByteSource, offset: int, length: int) -> bytes:
    """Return `length` bytes from `offset`; raises `IntegrityError` where the source is shorter."""
    data = source.read(offset, length) if length else b""
    if len(data) != length:
        raise IntegrityError(
            f"{source.name} lacks bytes {offset + len(data)} to {offset + length}, which its "
            "directory records: it was truncated or replaced; make it again from its segments"
        )
    return data
