"""Reading a file's bytes in threads, one block at a time, for as long as somebody takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor


class Blocks:
    """An iterator that blocks, read on an executor; `present` is None after its end."""

    def __init__(self, executor: Executor, blocks: Iterator[bytes]) -> None:
        self._executor = executor
        self._blocks = blocks
        self.present: bytes | None = None

    async def advance(self) -> None:
        """Go on to the next block; what reading it raises passes through."""
        loop = asyncio.get_running_loop()
        self.present = await loop.run_in_executor(self._executor, next, self._blocks, None)
