"""A source held against the warehouse: what is to be loaded, what cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transforms.segments.inventory import Held, Inventory, Refusal, SegmentFile
from transforms.segments.quarantine import QuarantinedFile
from transforms.segments.source import Source
from transforms.warehouse.document import Document


@dataclass(frozen=True, slots=True)
class Survey:
    """A source held against the warehouse.

    `pending` are segments that can be loaded now; `known_bad` those whose very bytes were refused
    before; the inventory's own refusals come on top.
    """

    inventory: Inventory
    pending: tuple[SegmentFile, ...]
    known_bad: tuple[Refusal, ...]

    @property
    def blocks_behind(self) -> int:
        """How many blocks the source has beyond, or in gaps of, what is loaded."""
        return sum(file.blocks.last - file.blocks.first + 1 for file in self.pending)

    def quarantined(self, newest: Document) -> Document | None:
        """A generation with these refusals, without files that may be tried now; None: the same."""
        refused = {refusal.key: refusal for refusal in self.inventory.refused}
        bad = {refusal.info for refusal in (*refused.values(), *self.known_bad)}
        known = {file.key: file for file in newest.quarantine}
        fresh = [
            QuarantinedFile(refusal)
            for key, refusal in refused.items()
            if key not in known or known[key].refusal != refusal
        ]
        released = [file.key for file in newest.quarantine if file.refusal.info not in bad]
        changed = newest.quarantined(fresh, released)
        return changed if changed != newest else None


def survey(
    source: Source,
    held: Held,
    quarantine: Sequence[QuarantinedFile],
    memory_mb: int,
    known_for: float = 0.0,
) -> Survey:
    """Hold the listing of a source against segments that are loaded, and files refused before.

    `memory_mb` is what a load may use: a file that was refused for less may be loaded now.
    A listing that this process took within `known_for` seconds may be used again.
    """
    inventory = source.inventory(held, known_for)
    read = {bad.refusal.info: bad.refusal for bad in quarantine if bad.stands(memory_mb)}
    pending: list[SegmentFile] = []
    known_bad: list[Refusal] = []
    for file in inventory.fresh:
        known = held.at(file.blocks)
        if known is not None and known[0] == file.name:
            if held.files[known[1]] != file.info.size:
                reason = f"{file.info.key} changed after it was loaded: verify which is right"
                known_bad.append(Refusal(file.info, reason))
        elif file.info in read:
            known_bad.append(read[file.info])
        else:
            pending.append(file)
    return Survey(inventory, tuple(pending), tuple(known_bad))
