"""Segments and receipts as columns: a history has 75,000 of them, which as objects take 100 MB.

Exports plan over all receipts of a table, and open few.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

from transforms.block_range import BlockRange
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema
from transforms.warehouse.manifests.manifest import read_columns
from transforms.warehouse.manifests.receipts import Receipt, parse_columns

_NUMBERS = ("first_block", "last_block", "schema_version")
_TEXTS = ("segment_id", "previous_id", "chain_id")


@dataclass(frozen=True, slots=True)
class SegmentList:
    """Columns of segments, ascending: blocks, schema versions, ids, previous ids, chain ids."""

    firsts: Sequence[int]
    lasts: Sequence[int]
    versions: Sequence[int]
    ids: Sequence[str]
    previous: Sequence[str]
    chains: Sequence[str]

    @classmethod
    def of(cls, manifest: Path) -> SegmentList:
        """The segments of a manifest.

        Raises `FileNotFoundError`, and `IntegrityError` where it is damaged.
        """
        table = read_columns(manifest, (*_NUMBERS, *_TEXTS))
        numbers = (array("q", table.column(name).to_pylist()) for name in _NUMBERS)
        texts = (table.column(name).to_pylist() for name in _TEXTS)
        shared: dict[str, str] = {}  # a previous id is the id of another segment
        return cls(
            *numbers, *([shared.setdefault(text, text) for text in column] for column in texts)
        )

    def __len__(self) -> int:
        return len(self.firsts)

    def blocks(self) -> Iterator[BlockRange]:
        """The blocks of each."""
        return map(BlockRange, self.firsts, self.lasts)

    def _rows(self) -> Iterator[tuple[int, int, int, str, str, str]]:
        columns = (self.firsts, self.lasts, self.versions, self.ids, self.previous, self.chains)
        return zip(*columns, strict=True)

    def joined(self, other: SegmentList) -> SegmentList:
        """The segments of both."""
        return SegmentList(*map(list, zip(*sorted([*self._rows(), *other._rows()]), strict=True)))


def in_order(lists: Iterable[SegmentList]) -> list[SegmentList]:
    """Lists of the same segments, ascending, each behind the one before.

    They are the very lists, but for volumes that have segments between those of others.
    """
    result: list[SegmentList] = []
    for segments in sorted(filter(len, lists), key=lambda segments: segments.firsts[0]):
        if result and segments.firsts[0] < result[-1].lasts[-1]:
            result[-1] = result[-1].joined(segments)
        else:
            result.append(segments)
    return result


COLUMNS = (
    "chain_id, schema_version, first_block, last_block, columns, rows, bytes, sha256"  # in order
)
_HASH_BYTES = 32
_ROW_BYTES = 6 * 8 + _HASH_BYTES
_parsed_columns = lru_cache(maxsize=256)(parse_columns)


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
        chains, versions, first, last, schemas, counts, sizes, hashes = columns
        return cls(
            chains[0],
            array("q", versions),
            array("q", first),
            array("q", last),
            [*map(_parsed_columns, repeat(table), schemas)],
            array("q", counts),
            array("q", sizes),
            bytearray.fromhex("".join(hashes)),
        )

    @classmethod
    def joined(cls, runs: Iterable[ReceiptColumns]) -> ReceiptColumns:
        """Runs one after the other."""
        runs = [run for run in runs if run.first]
        whole = cls(runs[0].chain_id if runs else "")
        for run in runs:
            whole.versions.extend(run.versions)
            whole.first.extend(run.first)
            whole.last.extend(run.last)
            whole.schemas.extend(run.schemas)
            whole.rows.extend(run.rows)
            whole.bytes.extend(run.bytes)
            whole.sha256.extend(run.sha256)
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
        return ReceiptColumns(
            self.chain_id,
            self.versions[start:stop],
            self.first[start:stop],
            self.last[start:stop],
            self.schemas[start:stop],
            self.rows[start:stop],
            self.bytes[start:stop],
            self.sha256[start * _HASH_BYTES : stop * _HASH_BYTES],
        )
