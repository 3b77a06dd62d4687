"""Python's collector of cycles of objects, which can be paused."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Collector:
    """How many blocks have it paused, and whether it ran before them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._ran = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No collection for the length of a block, or of a function; it holds for all threads.

        For seconds of work that makes many objects without cycles: rounds that find nothing, and
        go over all modules of the process each time, take as long as to read a large document.
        """
        with self._lock:
            if not self._blocks:
                self._ran = gc.isenabled()
            self._blocks += 1
            gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if self._ran and not self._blocks:
                    gc.enable()


collector_paused = _Collector().paused
