"""What a document lists of a volume: its file, its blocks, the shapes of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from transforms.block_range import BlockRange
from transforms.objects import StoredFile
from transforms.tables.registry import Column, fold_case
from transforms.warehouse.receipts import Receipt


@dataclass(slots=True)
class Shape:
    """A table's columns over several schemas, newest first, and those with texts in `_raw`.

    Shapes share mappings of columns: one is replaced, never changed.
    """

    columns: dict[str, str] = field(default_factory=dict)
    raw: set[str] = field(default_factory=set)

    def merge(self, newer: Shape) -> None:
        """Take in the shape of later segments: its columns come first, older ones after them.

        DuckDB folds case, so that a name written otherwise before is the same column.
        """
        newest = {fold_case(name) for name in newer.columns}
        self.columns = newer.columns | {
            name: kind for name, kind in self.columns.items() if fold_case(name) not in newest
        }
        self.raw |= newer.raw

    def column_list(self) -> tuple[Column, ...]:
        """The columns in order."""
        return tuple(Column(name, kind) for name, kind in self.columns.items())


def shapes_of(receipts: Iterable[Receipt]) -> dict[str, Shape]:
    """The shape of every table that the receipts are about, by table name."""
    shapes: dict[str, Shape] = {}
    for receipt in sorted(receipts, key=lambda receipt: receipt.blocks):
        columns = {column.name: column.type for column in receipt.schema.columns}
        shapes.setdefault(receipt.table, Shape()).merge(Shape(columns, set(receipt.raw_cells)))
    return shapes


Times = tuple[int, int]
"""The first and last `vega_time` of blocks, in microseconds since 1970, UTC."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a question names: blocks, times (both ends included), or both; None: any."""

    blocks: BlockRange | None = None
    times: Times | None = None

    def __str__(self) -> str:
        blocks = f"blocks {self.blocks}" if self.blocks else ""
        return " and ".join(filter(None, (blocks, "the times" if self.times else "")))

    def reaches(self, volume: Volume) -> bool:
        """Whether a volume of history can hold rows of this extent."""
        if self.blocks is not None and not volume.blocks.overlaps(self.blocks):
            return False
        if self.times is None or volume.times is None:
            return True
        return volume.times[0] <= self.times[1] and self.times[0] <= volume.times[1]


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume as a document lists it.

    `kind` is `history` or `state`; `blocks` are those of its segments; `version` is the newest
    schema version inside. `record` is the file with what was loaded, which only history has.
    `is_sorted` says that its rows were sorted all at once, not as they were loaded. `times` are
    those of its blocks, where that is known.
    """

    kind: str
    file: StoredFile
    blocks: BlockRange
    version: int
    shapes: Mapping[str, Shape]
    record: StoredFile | None = None
    is_sorted: bool = False
    times: Times | None = None

    @classmethod
    def of(
        cls,
        file: StoredFile,
        receipts: Iterable[Receipt],
        record: StoredFile | None = None,
        *,
        is_sorted: bool = False,
        times: Times | None = None,
    ) -> Volume:
        """Describe a volume by its receipts: one of history where it has a record."""
        receipt_list = list(receipts)
        first = min(receipt.blocks.first for receipt in receipt_list)
        last = max(receipt.blocks.last for receipt in receipt_list)
        version = max(receipt.segment.version for receipt in receipt_list)
        kind = "state" if record is None else "history"
        blocks = BlockRange(first, last)
        return cls(kind, file, blocks, version, shapes_of(receipt_list), record, is_sorted, times)

    @property
    def key(self) -> str:
        """Where it lies in the warehouse."""
        return self.file.key

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.file.size
