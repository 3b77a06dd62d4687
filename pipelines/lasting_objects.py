"""Objects that stay until the process ends, as imports make them by the hundred thousand.

To search them for garbage again and again takes a tenth of a short command.
"""

from __future__ import annotations

import atexit
import gc
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


@atexit.register
def _spare_the_last_search() -> None:
    # Before it ends, Python searches all objects once more, for nothing; but DuckDB's bindings
    # complain on stderr of those that are left.
    (gc.unfreeze if "_duckdb" in sys.modules else gc.freeze)()
