"""What a snapshot lists of a volume: its files, its blocks, the shapes of its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from transforms.block_range import BlockRange
from transforms.objects import StoredFile
from transforms.tables.registry import Column, fold_case
from transforms.warehouse.manifests.data_files import ALL_TABLES, data_key
from transforms.warehouse.manifests.file_names import named_file
from transforms.warehouse.manifests.receipts import Receipt


@dataclass(slots=True)
class Shape:
    """A table's columns over several schemas, newest first, and those with texts in `_raw`.

    Volumes share shapes: one that was read is never changed.
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
    ordered = sorted(receipts, key=lambda receipt: (receipt.table, receipt.blocks))
    for schema, alike in groupby(ordered, key=lambda receipt: receipt.schema):
        columns = {column.name: column.type for column in schema.columns}
        raw = {name for receipt in alike for name in receipt.raw_cells}
        shapes.setdefault(schema.table, Shape()).merge(Shape(columns, raw))
    return shapes


UNSTORED = StoredFile("", 0, "")
"""The manifest of a volume that has none yet."""

Times = tuple[int, int]
"""The first and last `vega_time` of blocks, in microseconds since 1970, UTC."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a question names: blocks, times (both ends included), or both; None: any."""

    blocks: BlockRange | None = None
    times: Times | None = None

    def reaches(self, volume: Volume) -> bool:
        """Whether a volume of history can hold rows of this extent."""
        if self.blocks is not None and not volume.blocks.overlaps(self.blocks):
            return False
        if self.times is None or volume.times is None:
            return True
        return volume.times[0] <= self.times[1] and self.times[0] <= volume.times[1]


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume as a snapshot lists it: a run of segments, or the current state after one.

    `kind` is `history` or `state`; `blocks` are those of its segments, `segments` is how many there
    are; `version` is the newest schema version inside. `file` is the manifest. `data` are the data
    files of history, by table (a table without rows has none), or the DuckDB file of a state.
    `index` is what servers look rows up in, which can be made again. `times` are those of its
    blocks, where that is known.
    """

    kind: str
    file: StoredFile
    blocks: BlockRange
    segments: int
    version: int
    shapes: Mapping[str, Shape]
    data: Mapping[str, StoredFile] = field(default_factory=dict)
    index: StoredFile | None = None
    times: Times | None = None

    def of_tables(self, tables: Collection[str]) -> Volume:
        """The volume as if it had these tables alone."""
        shapes = {name: shape for name, shape in self.shapes.items() if name in tables}
        data = {name: file for name, file in self.data.items() if name in {*shapes, ALL_TABLES}}
        return replace(self, shapes=shapes, data=data)

    @property
    def key(self) -> str:
        """Where its manifest lies in the warehouse."""
        return self.file.key

    @property
    def database(self) -> StoredFile:
        """The DuckDB file of a state."""
        return self.data[ALL_TABLES]

    @property
    def size(self) -> int:
        """The bytes of its rows."""
        return sum(file.size for file in self.data.values())

    @property
    def row_files(self) -> list[StoredFile]:
        """The files without which rows, or what is known of them, are lost."""
        return [self.file, *self.data.values()]


def volume_row(volume: Volume, places: dict[object, int]) -> dict[str, object]:
    """A volume: of each table its shape and, where it has rows, the hash and size of its file.

    A shape is told by its place, which is added to `places` where it has none yet.
    """
    tables = dict[str, list[object]]()
    for table, shape in volume.shapes.items():
        row = (tuple(shape.columns.items()), tuple(sorted(shape.raw)))
        tables[table] = [places.setdefault(row, len(places))]
    for table, file in volume.data.items():
        tables.setdefault(table, [None]).extend((file.sha256, file.size))
    return {
        "kind": volume.kind,
        "file": file_row(volume.file),
        "blocks": [volume.blocks.first, volume.blocks.last],
        "segments": volume.segments,
        "version": volume.version,
        "tables": tables,
        "index": file_row(volume.index),
        "times": volume.times,
    }


def parse_volume(row: Mapping[str, Any], shapes: Sequence[Shape]) -> Volume:
    """A volume; it shares its shapes, which nobody changes, with others."""
    blocks, its_shapes, data = BlockRange(*row["blocks"]), {}, {}
    for table, (place, *file) in row["tables"].items():
        if place is not None:
            its_shapes[table] = shapes[place]
        if file:
            sha256, size = file
            data[table] = StoredFile(data_key(table, blocks, sha256), size, sha256)
    manifest, index = named_file(*row["file"]), parse_file(row["index"])
    times = (row["times"][0], row["times"][1]) if row["times"] else None
    facts = row["kind"], manifest, blocks, row["segments"], row["version"]
    return Volume(*facts, its_shapes, data, index, times)


def file_row(file: StoredFile | None) -> tuple[str, int] | None:
    """A file's row; its hash stands in its key."""
    return (file.key, file.size) if file else None


def parse_file(row: Sequence[Any] | None) -> StoredFile | None:
    """A file from its row."""
    return named_file(*row) if row else None
