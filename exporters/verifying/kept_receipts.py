"""The lake's receipts on this machine's disk: a large lake has a million of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from exporters.lake.receipt_file import parse_receipts
from transforms.block_range import BlockRange, contiguous_runs
from transforms.duck import Connection, quote_files
from transforms.tables.registry import TableSchema
from transforms.warehouse.manifests.receipts import Receipt

Said = tuple[str, BlockRange, int, str]
"""Of a CSV: its table, its segment, its rows, its SHA-256."""


@dataclass
class KeptReceipts:
    """Proven files of receipts, which `opened` reads."""

    chain_id: str
    opened: Connection
    _lacking: list[BlockRange] = field(default_factory=list)
    _files: list[Path] = field(default_factory=list)
    _covered: dict[BlockRange, bool] = field(default_factory=dict)
    _schemas: dict[TableSchema, TableSchema] = field(default_factory=dict)

    def keep(self, path: Path) -> None:
        """Take in a proven file, which stays where it is."""
        self._files.append(path)

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
        if blocks not in self._covered:
            rows = self._rows("distinct _segment, last_block", blocks)
            runs = contiguous_runs(BlockRange(row["_segment"], row["last_block"]) for row in rows)
            self._covered[blocks] = [*runs] == [blocks]
        if self.lacks(blocks) or not self._covered[blocks]:
            return None
        rows = self._rows("*", blocks, f"and table_name = '{table}'")
        return [self._shared(receipt) for receipt in parse_receipts(rows, self.chain_id)]

    def said(self, blocks: BlockRange) -> Iterator[Said]:
        """What they say of all tables in segments that begin in these blocks."""
        for row in self._rows('table_name, _segment, last_block, "rows", sha256', blocks):
            segment = BlockRange(row["_segment"], row["last_block"])
            yield row["table_name"], segment, row["rows"], row["sha256"]

    def _rows(self, columns: str, blocks: BlockRange, more: str = "") -> list[dict[str, Any]]:
        """The rows of segments that begin in these blocks, ascending."""
        if not self._files:
            return []
        query = (
            f"select {columns} from read_parquet({quote_files(self._files)}) "  # noqa: S608 - ours
            f"where _segment between {blocks.first} and {blocks.last} {more} order by _segment"
        )
        # A result of another query may be unfinished.
        rows: list[dict[str, Any]] = self.opened.cursor().sql(query).to_arrow_table().to_pylist()
        return rows

    def _shared(self, receipt: Receipt) -> Receipt:
        """The same receipt; thousands of them have the same columns, which are kept once."""
        schema = self._schemas.setdefault(receipt.schema, receipt.schema)
        return replace(receipt, schema=schema)
