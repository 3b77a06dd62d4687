"""What is wrong with a copy of a part; each is proven before a byte of it is served.

A part lies in the published ZIP of its segment, or in the folder of parts that wait to be
published; else it is rendered from its data file.
"""

from __future__ import annotations

from collections.abc import Callable

from transforms.errors import IntegrityError

Warn = Callable[[str], object]


class DamagedCopyError(IntegrityError):
    """A copy is not what is recorded of it, or not there; `place` is its address."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place} {what}")
        self.place = place
