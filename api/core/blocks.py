"""Reading a file's bytes in threads, one block at a time, for as long as somebody takes them."""

from __future__ import annotations

from collections.abc import Callable

from api.core.workers import Workers

_BLOCK_BYTES = 2**20

Read = Callable[[int, int], bytes]
"""Reads the bytes from a start to a stop; it blocks, and leaves nothing open."""


class Blocks:
    """Bytes from a start to a stop; `present` is None after their end.

    Each block is a job of its own: who leaves during one, or between two, leaves nothing behind.
    """

    def __init__(self, workers: Workers, read: Read, start: int, stop: int) -> None:
        self._workers = workers
        self._read = read
        self._next = start
        self._stop = stop
        self.present: bytes | None = None

    async def advance(self) -> None:
        """Go on to the next block; what reading it raises passes through."""
        self.present = None
        start, stop = self._next, min(self._next + _BLOCK_BYTES, self._stop)
        if start < stop:
            self.present = await self._workers.run(lambda _: self._read(start, stop))
            self._next = stop
