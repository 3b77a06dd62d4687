"""Where published objects live: one small protocol over a folder or a bucket prefix (spec 2.8).

Objects are created and never overwritten; the few files that change (indexes, pages) change by
compare-and-swap. `transforms.stores.folder_store` and `transforms.stores.s3` implement the
protocol; one contract test suite runs against both.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeVar

from transforms.errors import BusyError, ConfigError, ConflictError, IntegrityError
from transforms.files import check_regular
from transforms.objects import ObjectInfo, ObjectReader

CHUNK_BYTES = 8 * 2**20
"""How many bytes of an object or a file are held in memory at a time."""

SCRATCH = ".strata-scratch"
"""The hidden folder of a store, for what is unfinished: no listing shows it, no key names it."""

WEAK = "W/"
"""What a weak ETag begins with: one that says nothing of single bytes."""

_READINGS = 4
_REQUESTS = 20

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
# One expression: an export checks 10,000 keys before its first byte.
_PART = r"(?!\.\.?(?:/|\Z))[^/\\\x00-\x1f]+"
_KEY = re.compile(rf"(?!{re.escape(SCRATCH)}(?:/|\Z)){_PART}(?:/{_PART})*")


class LostRaceError(BusyError):
    """Another writer changed the object first: read it again and try once more."""


class RefusedError(ConfigError):
    """A web server refuses an object, which may be missing: many hide that from strangers."""


class DamagedObjectError(IntegrityError):
    """An object lies there with other bytes than it says of itself: `data`, the same each time."""

    def __init__(self, message: str, data: bytes) -> None:
        super().__init__(message)
        self.data = data


class PutResult(Enum):
    """What a create-only write found."""

    CREATED = "created"
    IDENTICAL = "identical"


Versioned = tuple[bytes, str]
"""The bytes of an object, and its version: what a replacement of them is conditional upon."""


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach a bucket; what is left out comes from boto3's default chain.

    `facts` is the folder where this machine keeps for a day which services it tried (None: only
    this process knows). `single_writer` is the operator's word that never more than one process
    writes, so that the service need not honour conditions (decision 30).
    """

    endpoint: str | None = None
    region: str | None = None
    attempts: int = 4
    facts: Path | None = None
    single_writer: bool = False


class Store(ObjectReader, Protocol):
    """Read access, the two writes that cannot lose anybody's data, and removal.

    Every write is atomic: a reader sees the old object or the new one, whole. Errors of the machine
    (disk full, lost connection) pass through as `OSError` and leave no object behind.
    """

    def get(self, key: str) -> Versioned:
        """A whole small object with its version. Raises what `read` does."""

    def path(self, key: str) -> Path | None:
        """The local file of an object, where the store has one."""

    def now(self) -> float:
        """The time by the clock that says when objects were written, in Unix seconds.

        The age of an object is judged by it: this machine's clock may be another one, and wrong.
        """

    def delete(self, key: str) -> None:
        """Remove an object; an absent one is no error."""

    def put_if_absent(
        self,
        key: str,
        source: Path | bytes,
        *,
        content_type: str,
        sha256: str,
        immutable: bool,
        take: bool = False,
    ) -> PutResult:
        """Create an object whose bytes hash to `sha256`, or find the same bytes already there.

        `immutable` lets caches keep it for a year; they ask for others each time. `take` allows
        that the file `source` is moved there, where both lie on one file system: it is gone then,
        and that it hashes to `sha256` is the caller's word.

        Raises `ConflictError` where other bytes stand, `IntegrityError` where `source` does not
        hash to `sha256`.
        """

    def put_if_match(
        self,
        key: str,
        data: Path | bytes,
        expected_version: str | None,
        content_type: str,
        *,
        sha256: str | None = None,
    ) -> str:
        """Replace the object if it still has `expected_version` (None: if absent).

        Returns the new version. Raises `LostRaceError` where the version is another one by now;
        that may be this very write, if its answer got lost on the way. Raises `IntegrityError`
        where `data` does not hash to `sha256`, if that is known.
        """


def checked_key(key: str) -> str:
    """Return `key` if it is a plain relative path. Raises `ConfigError`."""
    if not _KEY.fullmatch(key):
        raise ConfigError(f"{key!r} is not a plain key: names joined by single slashes")
    return key


def content_chunks(content: Path | bytes) -> Iterator[bytes]:
    """Yield the bytes of a local file, or `content` itself, in bounded pieces."""
    if isinstance(content, bytes):
        yield content
        return
    check_regular(content)
    with content.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def content_size(content: Path | bytes) -> int:
    """The number of bytes of a local file or of `content` itself."""
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def content_sha256(content: Path | bytes) -> str:
    """The SHA-256 of a local file or of bytes, in hex."""
    digest = hashlib.sha256()
    for chunk in content_chunks(content):
        digest.update(chunk)
    return digest.hexdigest()


def read_as_is(
    reader: ObjectReader,
    key: str,
    start: int = 0,
    length: int | None = None,
    *,
    version: str | None = None,
) -> bytes:
    """Read as `ObjectReader.read` does, also what lies damaged in the store.

    That is for who holds the bytes against a hash that was recorded elsewhere, or in them.
    """
    try:
        return reader.read(key, start, length, version=version)
    except DamagedObjectError as error:
        return error.data


def versioned(store: Store, key: str) -> Versioned | None:
    """An object that fits in memory, with its version; None where it is absent.

    One that lies damaged in the store is answered as it is: documents prove themselves.
    """
    try:
        return store.get(key)
    except FileNotFoundError:
        return None
    except DamagedObjectError:
        # The version first: bytes newer than it only make a replacement fail.
        info = store.head(key)
        return None if info is None else (read_as_is(store, key), info.version)


def folder_infos(store: Store, folder: str) -> Iterator[ObjectInfo]:
    """What lies in a folder of a store; nothing where that, or the folder of the store, is not.

    A bucket that is not there, or that one may not list, is an error: who took it for an empty one
    would begin anew.
    """
    path = store.path(folder)
    if path is None or path.is_dir():
        yield from store.list(f"{folder}/")


def asked_together(
    store: Store, ask: Callable[[_Item], _Answer], items: Iterable[_Item], most: int = _REQUESTS
) -> Iterator[_Answer]:
    """What `ask` answers for each item, in their order.

    A request to a service waits, so `most` are made at a time. A folder answers at once: threads
    would only wait for the interpreter's lock, and take three times as long. Raises what `ask`
    raises for an item.
    """
    if store.path("any") is not None:
        yield from map(ask, items)
        return
    with ThreadPoolExecutor(most) as pool:
        yield from pool.map(ask, items)


def object_sha256(
    reader: ObjectReader, key: str, advance: Callable[[int], None] = lambda _bytes: None
) -> str:
    """Read a stored object to its end and hash it: the hash of what lies there, right or wrong.

    What does not match the object's own SHA-256 is read again, and believed when it stays so.
    `advance` is called with the bytes that were just read. Raises `FileNotFoundError`, `BusyError`
    where the object is replaced meanwhile, and `IntegrityError` where other bytes arrive each time.
    """
    info = reader.head(key)
    if info is None:
        raise FileNotFoundError(errno.ENOENT, "There is no such object", reader.describe(key))
    digest = ""
    for _ in range(_READINGS):
        before, digest = digest, _arriving_sha256(reader, info, advance)
        if info.sha256 in ("", digest) or digest == before:
            return digest
    raise IntegrityError(
        f"{reader.describe(key)} arrives with other bytes each time, so it is damaged on the way: "
        "try again later; if it stays so, look for what damages it: a proxy, a network card"
    )


def _arriving_sha256(reader: ObjectReader, info: ObjectInfo, advance: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    for start in range(0, info.size, CHUNK_BYTES):
        length = min(CHUNK_BYTES, info.size - start)
        digest.update(read_as_is(reader, info.key, start, length, version=info.version))
        advance(length)
    return digest.hexdigest()


def not_as_announced(content: Path | bytes, digest: str, sha256: str) -> IntegrityError:
    """The error of a write whose content has another hash than the one that came with it."""
    what = content if isinstance(content, Path) else "the content"
    return IntegrityError(
        f"{what} hashes to {digest}, not to {sha256} as announced: it was not stored"
    )


def conflict(place: str, digest: str, offered: str) -> ConflictError:
    """The error of a create-only write that found other bytes; both hashes are hex SHA-256."""
    return ConflictError(
        f"{place} already holds other bytes: sha256 {digest} stands there, {offered} was offered, "
        "and nothing was changed"
    )
