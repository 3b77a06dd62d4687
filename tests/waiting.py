"""Waiting for something that another thread or process does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

# Asking without a pause would take the core that whoever is waited for needs.
_PAUSE_SECONDS = 0.02
_PATIENCE_SECONDS = 120.0


def patience(seconds: float) -> float:
    """How long to wait for what a quiet machine does in so many seconds.

    Where three processes want each core, it may take three times as long.
    """
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(condition: Callable[[], object], seconds: float = _PATIENCE_SECONDS) -> None:
    """Return when the condition is true; fail the test where it is not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"this did not happen in {seconds:g} seconds"
        time.sleep(_PAUSE_SECONDS)
