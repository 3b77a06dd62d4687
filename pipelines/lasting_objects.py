"""Objects that stay until the process ends, as imports make them by the hundred thousand.

To search them for garbage again and again takes a tenth of a short command.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Search for no garbage in this block, and never among what there is at its end."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


# DuckDB's bindings complain on stderr of objects that are left at the very end.
atexit.register(gc.unfreeze)


def end_lightly() -> None:
    """Let this process end without taking its objects down: a quarter of a short run's time.

    It is to be called first of all, so that it is done last: after what others do in the end.
    """
    atexit.unregister(gc.unfreeze)
    atexit.register(_leave_objects)


def _leave_objects() -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # Python says so, and leaves with its own code
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
