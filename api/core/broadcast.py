"""From one writer to many readers on an event loop: each reads at its own pace, or is dropped.

Readers share what is written, so a reader costs its place only. One that lets too much wait when
more comes is thrown out: a slow connection costs neither memory nor the others their time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Mailbox(Generic[_Item]):
    """What waits for one reader: at most `most` bytes, besides what came last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[tuple[_Item, int]] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._error: Exception | None = None

    @property
    def is_full(self) -> bool:
        """Whether too much waits already: then all is thrown away, and the reader out."""
        return self._size > self._most

    def put(self, item: _Item, size: int) -> None:
        """Add an item of `size` bytes, unless the reader is thrown out."""
        if self._error is None:
            self._waiting.append((item, size))
            self._size += size
        self._changed.set()

    def end(self, error: Exception) -> None:
        """Throw the reader out when it has read what waits: nothing more can be added."""
        self._error = self._error or error
        self._changed.set()

    def clear(self) -> None:
        """Throw away what waits."""
        self._waiting.clear()
        self._size = 0

    async def items(self) -> AsyncIterator[_Item]:
        """Yield items as they come, until the end. Raises what the reader is thrown out with."""
        while True:
            if self._waiting:
                item, size = self._waiting.popleft()
                self._size -= size
                yield item
            elif self._error is not None:
                raise self._error
            else:
                self._changed.clear()
                await self._changed.wait()
