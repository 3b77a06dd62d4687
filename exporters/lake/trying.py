"""Trying again upon a newer version, where another publisher was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from exporters.lake.tables import LakeTable, Version

_ATTEMPTS = 100
_LONGEST_PAUSE_SECONDS = 0.5


def versions(table: LakeTable, *, is_read: bool = True) -> Iterator[Version | None]:
    """The newest version of a table (None: it is not there), again and again, bounded.

    Without `is_read` the first is the one that this machine expects it to be, unread.
    """
    yield table.version() if is_read else table.expected()
    for attempt in range(1, _ATTEMPTS):
        time.sleep(random.uniform(0, min(0.02 * attempt, _LONGEST_PAUSE_SECONDS)))
        yield table.version()
