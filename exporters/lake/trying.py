"""Trying again upon a newer version, where another publisher was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from exporters.lake.tables import LakeTable, Version

_ATTEMPTS = 100
_LONGEST_PAUSE_SECONDS = 0.5


def versions(table: LakeTable) -> Iterator[Version | None]:
    """The newest version of a table (None: it is not there), again and again, bounded."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, min(0.02 * attempt, _LONGEST_PAUSE_SECONDS)))
        yield table.version()
