"""What files of the lake are written from: the tables of a warehouse over a run of segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.lake.parquet_files import WrittenFile, lake_reader, linked_file, write_file
from transforms.scratch import scratch_folder
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.shapes import Shape
from transforms.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class LakeRows:
    """The rows of all history tables over a run of segments, and the receipts of these.

    `volumes` are the runs of segments of which the warehouse has data files. Files are written one
    at a time, whoever asks.
    """

    receipts: Sequence[Receipt]
    volumes: Sequence[BlockRange]
    _data: Mapping[tuple[str, BlockRange], tuple[Path, Shape]]
    _con: Connection
    _proof: Connection
    _writing: Lock = field(default_factory=Lock)

    def of(self, table: str, blocks: BlockRange) -> list[Receipt]:
        """The receipts of a table in the segments that lie in these blocks, ascending."""
        return [
            receipt
            for receipt in self.receipts
            if receipt.table == table
            and blocks.first <= receipt.blocks.first
            and receipt.blocks.last <= blocks.last
        ]

    def write(
        self, table: str, blocks: BlockRange, scratch: Path, spelling: Mapping[str, str]
    ) -> WrittenFile:
        """Write a table over these blocks, which are those of segments; see `write_file`.

        Where they are those of a data file, it is that file.
        """
        with self._writing:
            if data := self._data.get((table, blocks)):
                path, shape = data
                file = linked_file(self._proof, path, table, shape, scratch, spelling)
                if file is not None:
                    return file
            receipts = self.of(table, blocks)
            return write_file(self._con, self._proof, table, receipts, scratch, spelling)


@contextmanager
def file_rows(warehouse: Warehouse, receipts: Sequence[Receipt]) -> Iterator[LakeRows]:
    """Open the rows of the segments of these receipts, at least one, ascending."""
    hull = BlockRange(receipts[0].blocks.first, receipts[-1].blocks.last)
    volumes = [*warehouse.loaded_catalog().volumes_over(hull)]
    path = warehouse.backing.files.path
    data = {
        (table, volume.blocks): (path(file), volume.shapes[table])
        for volume in volumes
        for table, file in volume.data.items()
    }
    with (
        warehouse.stored_tables(hull) as con,
        scratch_folder(warehouse.backing.scratch) as scratch,
        lake_reader(scratch, warehouse.backing.memory_mb) as proof,
    ):
        yield LakeRows(receipts, [volume.blocks for volume in volumes], data, con, proof)
