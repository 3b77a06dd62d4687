"""A store that is away for now, so that not every export waits for it in vain."""

from __future__ import annotations

import time

SECONDS = 30.0
"""How long after a failure the store is not asked: requests to one that is away take seconds."""


class Outage:
    """Whether a store failed a moment ago; safe among threads."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def lasts(self) -> bool:
        """Whether it is too early to ask the store again."""
        return time.monotonic() < self._until

    def begin(self) -> None:
        """Note that the store has just failed."""
        self._until = time.monotonic() + SECONDS
