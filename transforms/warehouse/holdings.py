"""What a warehouse holds of one table, read only as far as an export asks (spec 4.1).

A history has 75,000 segments and an export takes a few: neither the list of all segments nor the
receipts of all volumes are read for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

from transforms.blocks import BlockRange
from transforms.duck import file_connection, quote_files, read_only_connection
from transforms.errors import RangeError
from transforms.segments.names import SegmentName
from transforms.warehouse.catalog import current_generation
from transforms.warehouse.receipts import Receipt, parse_columns

_RECEIPTS = (
    "select chain_id, schema_version, first_block, last_block, columns, rows, bytes, sha256 "
    "from {} where table_name = $1 and last_block >= $2 and first_block <= $3 order by first_block"
)
_VOLUMES = (
    "select first_block, last_block, file from strata.volumes where kind = 'history' "
    "order by first_block"
)
_SEGMENTS = (
    "select chain_id, schema_version, first_block, last_block from strata.segments "
    "order by first_block"
)
_parsed_columns = lru_cache(maxsize=256)(parse_columns)


class Holdings(Protocol):
    """One generation of a warehouse, as exports ask for it."""

    def receipts(self, table: str, blocks: BlockRange) -> Sequence[Receipt]:
        """The receipts of a table in the segments that hold any of these blocks, ascending.

        They leave out which cells keep their text.
        """
        ...

    def segments(self) -> Sequence[SegmentName]:
        """All segments, ascending: what a message needs to say which range would be right."""
        ...

    def volume(self, blocks: BlockRange) -> Path:
        """The volume file with a segment's history. Raises `RangeError` where none has it."""
        ...


class CatalogHoldings:
    """The generation of the warehouse in `root` that is newest when this is made."""

    def __init__(self, root: Path) -> None:
        """Raises `ConfigError` where nothing was ever loaded."""
        self._root = root.resolve()
        self._generation = current_generation(root)

    def receipts(self, table: str, blocks: BlockRange) -> list[Receipt]:
        """See `Holdings.receipts`."""
        files = self._files(blocks)
        if not files:
            return []
        source = (
            f"read_duckdb({quote_files(files)}, hive_partitioning = false, "
            "schema_name = 'strata', table_name = 'receipts')"
        )
        with file_connection() as con:
            asked = con.execute(receipts_sql(source), [table, blocks.first, blocks.last])
            return table_receipts(table, asked.fetchall())

    def segments(self) -> list[SegmentName]:
        """See `Holdings.segments`."""
        with read_only_connection(self._generation, threads=1) as con:
            return [_name(row) for row in con.execute(_SEGMENTS).fetchall()]

    def volume(self, blocks: BlockRange) -> Path:
        """See `Holdings.volume`."""
        for file in self._files(blocks):
            return file
        raise no_volume(blocks)

    def _files(self, blocks: BlockRange) -> list[Path]:
        return [self._root / file for held, file in self._volumes if held.overlaps(blocks)]

    @cached_property
    def _volumes(self) -> list[tuple[BlockRange, str]]:
        with read_only_connection(self._generation, threads=1) as con:
            rows = con.execute(_VOLUMES).fetchall()
        return [(BlockRange(first, last), file) for first, last, file in rows]


def receipts_sql(source: str) -> str:
    """SQL over receipts for `table_receipts`: `$1` is the table, `$2` and `$3` are the blocks."""
    return _RECEIPTS.format(source)


def table_receipts(table: str, rows: Iterable[Sequence[Any]]) -> list[Receipt]:
    """Receipts from the rows of `receipts_sql`; equal columns are one schema."""
    return [Receipt(_name(row), _parsed_columns(table, row[4]), *row[5:8]) for row in rows]


def no_volume(blocks: BlockRange) -> RangeError:
    """The error for a segment that no volume of a generation holds."""
    return RangeError(f"the warehouse does not hold the segment {blocks}")


def _name(row: Sequence[Any]) -> SegmentName:
    return SegmentName(row[0], row[1], BlockRange(row[2], row[3]))
