"""Receipts as columns: a history has 75,000 of a table, which as objects take 100 MB.

Exports plan over all receipts of a table, and open few.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any

from transforms.block_range import BlockRange
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema
from transforms.warehouse.manifests.receipts import Receipt, parse_columns

COLUMNS = (
    "chain_id, schema_version, first_block, last_block, columns, rows, bytes, sha256"  # in order
)
_COLUMNS = ("versions", "first", "last", "schemas", "rows", "bytes")
_HASH_BYTES = 32
_ROW_BYTES = 6 * 8 + _HASH_BYTES
_parsed_columns = lru_cache(maxsize=256)(parse_columns)


def digests(column: bytearray) -> Iterator[bytes]:
    """The bytes of each SHA-256 in a column that has one after the other."""
    data = bytes(column)
    return (data[at : at + _HASH_BYTES] for at in range(0, len(data), _HASH_BYTES))


def _numbers() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True)
class ReceiptColumns:
    """Receipts of one chain and table, ascending; they leave out which cells keep their text.

    `sha256` has the bytes of one hash after the other. Equal columns are one schema.
    """

    chain_id: str = ""
    versions: array[int] = field(default_factory=_numbers)
    first: array[int] = field(default_factory=_numbers)
    last: array[int] = field(default_factory=_numbers)
    schemas: list[TableSchema] = field(default_factory=list)
    rows: array[int] = field(default_factory=_numbers)
    bytes: array[int] = field(default_factory=_numbers)
    sha256: bytearray = field(default_factory=bytearray)

    @classmethod
    def of(cls, table: str, rows: Iterable[Sequence[Any]]) -> ReceiptColumns:
        """Receipts from rows of `COLUMNS`."""
        columns = [*zip(*rows, strict=True)]
        if not columns:
            return cls()
        chains, *numbers, schemas, counts, sizes, hashes = columns
        parsed = [*map(_parsed_columns, repeat(table), schemas)]
        versions, first, last, rows_of, bytes_of = (
            array("q", column) for column in (*numbers, counts, sizes)
        )
        sha256 = bytearray.fromhex("".join(hashes))
        return cls(chains[0], versions, first, last, parsed, rows_of, bytes_of, sha256)

    @classmethod
    def joined(cls, runs: Iterable[ReceiptColumns]) -> ReceiptColumns:
        """Runs one after the other."""
        runs = [run for run in runs if run.first]
        whole = cls(runs[0].chain_id if runs else "")
        for run in runs:
            for name in (*_COLUMNS, "sha256"):
                getattr(whole, name).extend(getattr(run, name))
        return whole

    @property
    def memory(self) -> int:
        """About how many bytes they take in memory."""
        return len(self.first) * _ROW_BYTES

    def __len__(self) -> int:
        return len(self.first)

    def __iter__(self) -> Iterator[Receipt]:
        return map(self.receipt, range(len(self)))

    def receipt(self, row: int) -> Receipt:
        """One of them by its number."""
        blocks = BlockRange(self.first[row], self.last[row])
        name = SegmentName(self.chain_id, self.versions[row], blocks)
        sha256 = self.sha256[row * _HASH_BYTES : (row + 1) * _HASH_BYTES].hex()
        return Receipt(name, self.schemas[row], self.rows[row], self.bytes[row], sha256)

    def over(self, blocks: BlockRange) -> ReceiptColumns:
        """Those of segments that hold any of these blocks."""
        start = bisect_left(self.last, blocks.first)
        stop = bisect_right(self.first, blocks.last)
        if stop - start == len(self):
            return self
        columns = [getattr(self, name)[start:stop] for name in _COLUMNS]
        columns.append(self.sha256[start * _HASH_BYTES : stop * _HASH_BYTES])
        return ReceiptColumns(self.chain_id, *columns)
