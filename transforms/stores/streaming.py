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
    """Bytes of an object that arrive: from which on, of how many.

    `close` ends the connection, whether or not all of them have arrived.
    """

    start: int
    size: int | None
    pieces: Iterator[bytes]
    close: Callable[[], object] = _nothing


def open_object(store: Store, key: str, start: int = 0) -> Body:
    """The bytes of an object from `start`, or from 0 where a web server gives no ranges.

    Raises `FileNotFoundError`, and what else the store raises, also while the bytes are taken.
    """
    # A web server is asked once, and answers for as long as it takes.
    opened = getattr(store, "open", None)
    if opened is not None:
        body: Body = opened(key, start)
        return body
    info = store.head(key)
    if info is None:
        raise FileNotFoundError(errno.ENOENT, "There is no such object", store.describe(key))

    def pieces() -> Iterator[bytes]:
        for at in range(start, info.size, CHUNK_BYTES):
            yield store.read(key, at, min(CHUNK_BYTES, info.size - at), version=info.version)

    return Body(start, info.size, pieces())
