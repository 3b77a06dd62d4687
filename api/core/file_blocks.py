"""Reading a file's bytes in threads, one block at a time, for as long as somebody takes them."""

from __future__ import annotations

from collections.abc import Callable

from api.core.workers import Workers

BLOCK_BYTES = 2**20

Read = Callable[[int, int], bytes]
"""Reads the bytes from a start to a stop; it blocks, and leaves nothing open."""


class Blocks:
    """Bytes from a start to a stop.

    Each block is a job of its own: who leaves during one, or between two, leaves nothing behind.
    """

    def __init__(self, workers: Workers, read: Read, start: int, stop: int) -> None:
        self._workers = workers
        self._read = read
        self._next = start
        self._stop = stop

    async def next(self) -> bytes | None:
        """Read the next block, None after the last; what reading it raises passes through."""
        start, stop = self._next, min(self._next + BLOCK_BYTES, self._stop)
        if start >= stop:
            return None
        block = await self._workers.run(lambda _: self._read(start, stop))
        self._next = stop
        return block
