"""What a segment source needs of the place where its files lie: a folder or a bucket.

All stores have this shape: who reads segments never learns which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class ObjectInfo:
    """One stored object: its key below the store's root, its size in bytes, its version.

    The version is opaque text that changes when the bytes do (an ETag, or a file's time and size).
    `modified` is when it was written, in Unix seconds by the store's clock, 0 where nobody asked.
    `sha256` is what the object itself says of its bytes, in hex; empty in listings, and where it
    says nothing.
    """

    key: str
    size: int
    version: str
    modified: float = field(default=0.0, compare=False)
    sha256: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """An object that others name: its key, its size in bytes, its SHA-256 in hex."""

    key: str
    size: int
    sha256: str


class ObjectReader(Protocol):
    """Read access to a folder or a bucket prefix. Keys use `/`, whatever the platform."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with `prefix`, each once, in the store's own order."""

    def head(self, key: str) -> ObjectInfo | None:
        """Describe one object, or None where it is absent."""

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """Return `length` bytes from `start` (default: to the end). Raises `FileNotFoundError`.

        With `version`, raises `BusyError` where the object has another one by now. Bytes that are
        all of an object match what it says of itself, or that is an `IntegrityError`: a
        `DamagedObjectError` with the bytes where they lie there so.
        """

    def fetch(self, key: str, path: Path) -> None:
        """Copy the whole object to a local file. Raises `FileNotFoundError`, `IntegrityError`."""

    def describe(self, key: str = "") -> str:
        """Name the object, or the store itself, for a person: a path or an `s3://` address."""
