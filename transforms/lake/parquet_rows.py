"""What files of the lake are made of: the data files of a warehouse over a run of segments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from threading import Lock

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.lake.parquet_files import (
    WrittenFile,
    lake_reader,
    linked_file,
    part_sql,
    write_file,
)
from transforms.scratch import scratch_folder
from transforms.tables.registry import history_tables
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class LakeRows:
    """The rows of all history tables of some volumes, and their receipts, ascending by block.

    `state_ends` are the last blocks at which tables are current state.
    Files are written one at a time, whoever asks.
    """

    receipts: Sequence[Receipt]
    volumes: Sequence[Volume]
    state_ends: Mapping[str, int]
    _files: LocalFiles
    _con: Connection
    _writing: Lock = field(default_factory=Lock)

    @cached_property
    def _receipts_by_table(self) -> Mapping[str, Sequence[Receipt]]:
        receipts: defaultdict[str, list[Receipt]] = defaultdict(list)
        for receipt in self.receipts:
            receipts[receipt.table].append(receipt)
        return receipts

    @property
    def tables(self) -> list[str]:
        """The tables that have rows, sorted."""
        return sorted({receipt.table for receipt in self.receipts if receipt.rows})

    def of(self, table: str, blocks: BlockRange) -> list[Receipt]:
        """The receipts of a table in the segments that lie in these blocks, ascending."""
        return [
            receipt
            for receipt in self._receipts_by_table.get(table, ())
            if blocks.holds(receipt.blocks)
        ]

    def segments(self, table: str) -> list[BlockRange]:
        """The segments in which a table has rows, ascending."""
        receipts = self._receipts_by_table.get(table, ())
        return [receipt.blocks for receipt in receipts if receipt.rows]

    def write(
        self, table: str, blocks: BlockRange, scratch: Path, spelling: Mapping[str, str]
    ) -> WrittenFile:
        """Write a table over these blocks, which are those of segments; see `write_file`.

        Where they are those of a data file, it is that file. Raises `IntegrityError` where a data
        file is damaged.
        """
        over = [volume for volume in self.volumes if volume.blocks.overlaps(blocks)]
        volumes = [volume for volume in over if table in volume.data]
        data = [volume.data[table] for volume in volumes]
        # Bytes that were proven by the load are hashed before they are published.
        with self._writing, self._files.hold(data, recheck=True):
            paths = [*map(self._files.path, data)]
            if [volume.blocks for volume in volumes] == [blocks]:
                shape = volumes[0].shapes[table]
                file = linked_file(self._con, paths[0], table, shape, scratch, spelling)
                if file is not None:
                    return file
            receipts = self.of(table, blocks)
            query = partial(part_sql, table, paths, receipts)
            return write_file(self._con, self._con, query, table, receipts, scratch, spelling)


@contextmanager
def lake_rows(warehouse: Warehouse, segments: Sequence[BlockRange]) -> Iterator[LakeRows]:
    """Open the rows of the volumes that hold these loaded segments (ascending, at least one).

    Raises `FileNotFoundError` where a data file is missing.
    """
    catalog, backing = warehouse.loaded_catalog(), warehouse.backing
    hull = BlockRange(segments[0].first, segments[-1].last)
    volumes = [*catalog.volumes_over(hull)]
    tables = frozenset(history_tables())
    receipts = [r for r in warehouse.receipts(catalog.segments_over(hull)) if r.table in tables]
    files = [file for volume in volumes for table, file in volume.data.items() if table in tables]
    with (
        backing.files.hold(files),
        scratch_folder(backing.scratch) as scratch,
        lake_reader(scratch, backing.memory_mb) as con,
    ):
        ends = {table: state.blocks.last for state in catalog.states() for table in state.shapes}
        yield LakeRows(receipts, volumes, ends, backing.files, con)
