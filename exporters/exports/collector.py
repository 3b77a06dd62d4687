"""Python's collector of cycles, kept out of work that makes very many objects which all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection for the length of a block, which must be short: it holds for all threads.

    In a plan of 10,000 segments half of the time went into rounds that found nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
