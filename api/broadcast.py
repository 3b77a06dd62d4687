"""From one writer to many readers on an event loop: each reads at its own pace, or is dropped.

What waits for a reader is bounded in bytes. A reader that lets more wait is cut off, so that one
slow connection costs neither memory nor the others their time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator


class TooSlowError(Exception):
    """More waits for a reader than may."""


class Mailbox:
    """What waits for one reader: at most `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._overflowed = False
        self._closed = False

    def put(self, message: bytes) -> None:
        """Add a message; one too many throws everything away, and the reader out."""
        if self._overflowed or self._closed:
            return
        self._waiting.append(message)
        self._size += len(message)
        if self._size > self._most:
            self._overflowed = True
            self._waiting.clear()
        self._changed.set()

    def close(self) -> None:
        """Let the reader end when it has read what waits."""
        self._closed = True
        self._changed.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages as they come, until the end. Raises `TooSlowError`."""
        while True:
            while self._waiting:
                message = self._waiting.popleft()
                self._size -= len(message)
                yield message
            if self._overflowed:
                raise TooSlowError
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()
