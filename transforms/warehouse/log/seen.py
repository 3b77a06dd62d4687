"""What others have seen of a warehouse's log: a log that ends earlier has lost its newest part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, union
from transforms.files import new_file
from transforms.sealed import read_sealed, seal


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """A snapshot as it is recorded outside the log: its warehouse, its number, its blocks.

    Blocks that the warehouse has lost count: it had loaded them.
    """

    warehouse: str
    number: int
    blocks: Coverage

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> SeenSnapshot:
        """The record that `row` wrote."""
        blocks = tuple(BlockRange(*run) for run in row["blocks"])
        return cls(row["warehouse"], row["snapshot"], blocks)

    def row(self) -> dict[str, object]:
        """The record as JSON values."""
        blocks = [[run.first, run.last] for run in self.blocks]
        return {"warehouse": self.warehouse, "snapshot": self.number, "blocks": blocks}

    def problem(self, newest: SeenSnapshot) -> str:
        """What the newest snapshot of a log lacks of this record; empty if nothing."""
        if newest.warehouse != self.warehouse:
            return ""
        if self.number > newest.number:
            return f"ends with snapshot {newest.number}, and snapshot {self.number} was seen"
        missing = difference(self.blocks, newest.blocks)
        return f"does not name the blocks {missing[0]}, which it named before" if missing else ""


Published = Callable[[str], Sequence[SeenSnapshot]]
"""What the archive of a chain has recorded, of any warehouses."""


class SeenSnapshots:
    """The records of this process, of this machine (in the file `path`) and of the archive."""

    def __init__(self, path: Path | None = None, published: Published | None = None) -> None:
        self._path = path
        # One look at the archive is enough.
        self._published = lru_cache(maxsize=1)(published) if published else None
        self._own: SeenSnapshot | None = None

    def highest(self, warehouse: str, chain_id: str) -> SeenSnapshot:
        """All that is recorded of a warehouse; of any, if its id is lost with its log.

        The number is 0 if nothing is.
        """
        records = [record for record in (self._own, self._kept()) if record]
        if self._published and chain_id:
            records += self._published(chain_id)
        name = warehouse or (records[0].warehouse if records else "")
        same = [record for record in records if record.warehouse == name]
        blocks = union(run for record in same for run in record.blocks)
        return SeenSnapshot(name, max((record.number for record in same), default=0), blocks)

    def record(self, own: SeenSnapshot) -> None:
        """Keep a snapshot, also on this machine unless that has seen a higher one.

        Where nothing can be written, this process and the archive alone remember it.
        """
        self._own, kept = own, self._kept()
        is_known = kept and kept.warehouse == own.warehouse and kept.number >= own.number
        if self._path is not None and not is_known:
            with suppress(OSError), new_file(self._path) as file:
                file.write(seal(own.row()))

    def _kept(self) -> SeenSnapshot | None:
        row = read_sealed(self._path) if self._path else {}
        return SeenSnapshot.parse(row) if row else None
