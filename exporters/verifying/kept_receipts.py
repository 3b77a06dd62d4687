"""The lake's receipts on this machine's disk: a large lake has a million of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporters.lake.receipt_file import parse_receipts
from transforms.block_range import BlockRange
from transforms.tables.registry import TableSchema
from transforms.warehouse.manifests.receipts import Receipt

_SHORT = ("table_name", "_segment", "last_block", "rows", "sha256")

Said = tuple[str, BlockRange, int, str]
"""Of a CSV: its table, its segment, its rows, its SHA-256."""


@dataclass
class KeptReceipts:
    """Proven files of receipts; read a thousand segments at a time."""

    chain_id: str
    _lacking: list[BlockRange] = field(default_factory=list)
    _files: list[tuple[BlockRange, Path]] = field(default_factory=list)
    _schemas: dict[TableSchema, TableSchema] = field(default_factory=dict)

    def keep(self, blocks: BlockRange, path: Path) -> None:
        """Take in a proven file over these blocks, which stays where it is."""
        self._files.append((blocks, path))
        self._files.sort()

    def lack(self, blocks: BlockRange) -> None:
        """A file over these blocks cannot be read: nothing can be said of them."""
        self._lacking.append(blocks)

    def lacks(self, blocks: BlockRange) -> bool:
        """Whether nothing can be said of any of these blocks, for a damage that was found."""
        return any(map(blocks.overlaps, self._lacking))

    def of(self, table: str, blocks: BlockRange) -> list[Receipt] | None:
        """The receipts of a table in the segments of a file over these blocks, ascending.

        None where they are not known: receipts do not tell of all of these blocks.
        """
        if self.lacks(blocks) or not self._covers(blocks):
            return None
        receipts: list[Receipt] = []
        for rows in self._groups(blocks, None):
            own = rows.filter(pc.equal(rows["table_name"], table))
            receipts += map(self._shared, parse_receipts(own.to_pylist(), self.chain_id))
        return receipts

    def said(self, blocks: BlockRange) -> Iterator[Said]:
        """What they say of all tables in segments that begin in these blocks."""
        for rows in self._groups(blocks, _SHORT):
            for row in rows.to_pylist():
                segment = BlockRange(row["_segment"], row["last_block"])
                yield row["table_name"], segment, row["rows"], row["sha256"]

    def segments(self, blocks: BlockRange) -> list[BlockRange]:
        """The segments of which they tell that begin in these blocks, ascending."""
        ranges: set[tuple[int, int]] = set()
        for rows in self._groups(blocks, ("_segment", "last_block")):
            ends = zip(rows["_segment"].to_pylist(), rows["last_block"].to_pylist(), strict=True)
            ranges.update(ends)
        return [BlockRange(*ends) for ends in sorted(ranges)]

    def _covers(self, blocks: BlockRange) -> bool:
        """Whether they tell of all of these blocks, by segments that lie inside."""
        after = blocks.first
        for segment in self.segments(blocks):
            if segment.first != after:
                return False
            after = segment.last + 1
        return after == blocks.last + 1

    def _groups(self, blocks: BlockRange, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        """The rows of segments that begin in these blocks, some at a time."""
        for run, path in self._files:
            if not run.overlaps(blocks):
                continue
            with pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    if not _reaches(file.metadata.row_group(group), blocks):
                        continue
                    rows = file.read_row_group(group, columns, use_threads=False)
                    first = rows["_segment"]
                    is_inside = pc.and_(
                        pc.greater_equal(first, blocks.first), pc.less_equal(first, blocks.last)
                    )
                    yield rows.filter(is_inside)

    def _shared(self, receipt: Receipt) -> Receipt:
        """The same receipt; thousands of them have the same columns, which are kept once."""
        schema = self._schemas.setdefault(receipt.schema, receipt.schema)
        return replace(receipt, schema=schema)


def _reaches(group: pq.RowGroupMetaData, blocks: BlockRange) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "_segment" and column.statistics is not None:
            least, greatest = column.statistics.min, column.statistics.max
            return bool(least <= blocks.last and blocks.first <= greatest)
    return True
