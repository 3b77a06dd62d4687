"""From one writer to many readers on an event loop: each reads at its own pace, or is dropped.

Readers share what is written, so a reader costs its place only. One that lets too much wait when
more comes is thrown out: a slow connection costs neither memory nor the others their time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar


class TooSlowError(Exception):
    """Too much waits for a reader."""


class Sized(Protocol):
    """Something that may be large."""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        ...


_Item = TypeVar("_Item", bound=Sized)


class Mailbox(Generic[_Item]):
    """What waits for one reader: at most `most` bytes, besides what came last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[_Item] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._overflowed = False
        self._closed = False

    def put(self, item: _Item) -> None:
        """Add an item; where too much waits already, throw all away, and the reader out."""
        if self._size > self._most:
            self._overflowed = True
            self._waiting.clear()
        if not self._overflowed:
            self._waiting.append(item)
            self._size += item.size
        self._changed.set()

    def close(self) -> None:
        """Let the reader end when it has read what waits."""
        self._closed = True
        self._changed.set()

    async def items(self) -> AsyncIterator[_Item]:
        """Yield items as they come, until the end. Raises `TooSlowError`."""
        while True:
            if self._overflowed:
                raise TooSlowError
            if self._waiting:
                item = self._waiting.popleft()
                self._size -= item.size
                yield item
            elif self._closed:
                return
            else:
                self._changed.clear()
                await self._changed.wait()
