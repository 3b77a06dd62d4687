"""Shapes: what the catalog must know of each table in a volume to make its views."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from transforms.blocks import BlockRange
from transforms.tables.registry import Column
from transforms.warehouse.receipts import Receipt


@dataclass(slots=True)
class Shape:
    """A table's columns over several schemas, newest first, and those with texts in `_raw`."""

    columns: dict[str, str] = field(default_factory=dict)
    raw: set[str] = field(default_factory=set)

    def merge(self, newer: Shape) -> None:
        """Take in the shape of later segments: its columns come first, older ones after them.

        DuckDB folds case, so that a name written otherwise before is the same column.
        """
        newest = {name.lower() for name in newer.columns}
        self.columns = newer.columns | {
            name: kind for name, kind in self.columns.items() if name.lower() not in newest
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


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume as the catalog lists it.

    `kind` is `history` or `state`; `file` is relative to the warehouse; `blocks` are those of its
    segments; `version` is the newest schema version inside.
    """

    kind: str
    file: str
    blocks: BlockRange
    version: int
    shapes: Mapping[str, Shape]

    @classmethod
    def of(cls, kind: str, file: str, receipts: list[Receipt]) -> Volume:
        """Describe a volume that was just built."""
        first = min(receipt.blocks.first for receipt in receipts)
        last = max(receipt.blocks.last for receipt in receipts)
        version = max(receipt.segment.version for receipt in receipts)
        return cls(kind, file, BlockRange(first, last), version, shapes_of(receipts))

    def dump_shapes(self) -> str:
        """Write the shapes as JSON."""
        return json.dumps(
            {
                table: {"columns": shape.columns, "raw": sorted(shape.raw)}
                for table, shape in sorted(self.shapes.items())
            }
        )


def parse_shapes(text: str) -> dict[str, Shape]:
    """Read shapes back from their JSON."""
    return {
        table: Shape(dict(row["columns"]), set(row["raw"]))
        for table, row in json.loads(text).items()
    }
