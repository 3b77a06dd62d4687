"""Copies of parts, which are proven before a byte of them is served, and what is wrong with some.

A part lies in the published ZIP of its segment, in those of bundles, or in the folder of
parts that wait to be published; else it is rendered from its data file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from transforms.errors import IntegrityError

Warn = Callable[[str], object]


class DamagedCopyError(IntegrityError):
    """A copy is not what is recorded of it, or not there; `place` is its address."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place} {what}")
        self.place = place


@dataclass(slots=True)
class Damages:
    """The places of copies that are not to be taken; `warn` gets each damage once."""

    warn: Warn
    places: set[str] = field(default_factory=set)

    def note(self, place: str, damage: object) -> None:
        """Take no rows from a place any more."""
        if place not in self.places:
            self.places.add(place)
            self.warn(f"{damage}. The rows are taken from another copy")
