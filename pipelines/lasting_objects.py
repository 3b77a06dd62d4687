"""Objects that stay until the process ends, as imports make them by the hundred thousand.

To search them for garbage again and again takes a tenth of a short command.
"""

from __future__ import annotations

import atexit
import gc
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


# Else DuckDB's bindings complain on stderr of those that are left.
atexit.register(gc.unfreeze)
