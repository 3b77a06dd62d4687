"""How those who fetch are told how far it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

JOBS = 8
"""How many ZIPs are fetched at a time."""

Advance = Callable[[int], None]
Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
"""Opens the progress of something: its name, how many bytes it has (None: not known)."""


def no_progress(_label: str, _total: int | None) -> AbstractContextManager[Advance]:
    """Nobody watches."""
    return nullcontext(lambda _bytes: None)
