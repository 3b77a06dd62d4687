"""How much time has passed, also where a machine slept or its clock was set."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by both clocks: one stops where a machine sleeps, the other may be set."""

    clock: float
    monotonic: float

    @classmethod
    def now(cls) -> Moment:
        """The present moment."""
        return cls(time.time(), time.monotonic())

    def passed(self) -> float:
        """Seconds since then."""
        return max(time.time() - self.clock, time.monotonic() - self.monotonic)
