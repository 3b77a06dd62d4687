"""Python's collector of cycles of objects, which can be paused."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector for a block, or a function; it holds for all threads.

    For seconds of work that makes many objects without cycles: rounds that find nothing, and
    go over all modules of the process each time, take as long as to read a large document.
    The first of several blocks lets the collector run again when it ends.
    """
    with _lock:
        is_running = gc.isenabled()
        gc.disable()
    try:
        yield
    finally:
        if is_running:
            with _lock:
                gc.enable()
