"""From one writer to many readers on an event loop: each reads at its own pace, or is dropped.

Readers share what is written, so a reader costs its place only. One that lets too much wait when
more comes is thrown out: a slow connection costs neither memory nor the others their time. What
could not be written ends all readers with an error: whoever goes on reading has missed nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar


class TooSlowError(Exception):
    """Too much waits for a reader."""


class MissedError(Exception):
    """Something could not be written."""


class Measurable(Protocol):
    """Something that may be large."""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        ...


_Item = TypeVar("_Item", bound=Measurable)


class Mailbox(Generic[_Item]):
    """What waits for one reader: at most `most` bytes, besides what came last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[_Item] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self._closed = False

    def put(self, item: _Item) -> None:
        """Add an item; where too much waits already, throw all away, and the reader out."""
        if self._size > self._most:
            self._error = TooSlowError()
            self._waiting.clear()
        if self._error is None:
            self._waiting.append(item)
            self._size += item.size
        self._changed.set()

    def miss(self, error: Exception | None = None) -> None:
        """Throw the reader out when it has read what waits: what comes now cannot be added."""
        self._error = self._error or error or MissedError()
        self._changed.set()

    def close(self) -> None:
        """Let the reader end when it has read what waits."""
        self._closed = True
        self._changed.set()

    async def items(self) -> AsyncIterator[_Item]:
        """Yield items as they come, until the end. Raises what the reader is thrown out with."""
        while True:
            if self._waiting:
                item = self._waiting.popleft()
                self._size -= item.size
                yield item
            elif self._error is not None:
                raise self._error
            elif self._closed:
                return
            else:
                self._changed.clear()
                await self._changed.wait()
