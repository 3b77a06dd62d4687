"""An object as it arrives, from any place in it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from transforms.stores.store import CHUNK_BYTES, Store


def _nothing() -> None:
    """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes of an object that arrive: from which on, of how many, of which version.

    `close` ends the connection, whether or not all of them have arrived.
    """

    start: int
    size: int | None
    version: str
    pieces: Iterator[bytes]
    close: Callable[[], object] = _nothing


def open_object(store: Store, key: str, start: int = 0, version: str = "") -> Body:
    """The bytes of an object from `start`, or from 0 where a web server gives no ranges.

    With `version`, those of another one are a `BusyError`. Raises `FileNotFoundError`, and what
    else the store raises, also while the bytes are taken.
    """
    # A web server is asked once, and answers for as long as it takes.
    opened = getattr(store, "open", None)
    if opened is not None:
        body: Body = opened(key, start, version)
        return body
    info = store.head(key)
    if info is None:
        raise FileNotFoundError(errno.ENOENT, "There is no such object", store.describe(key))
    expected_version = version or info.version

    def pieces() -> Iterator[bytes]:
        for at in range(start, info.size, CHUNK_BYTES):
            yield store.read(key, at, min(CHUNK_BYTES, info.size - at), version=expected_version)

    return Body(start, info.size, expected_version, pieces())
