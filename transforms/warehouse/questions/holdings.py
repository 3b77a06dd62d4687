"""What a warehouse holds of one table, read only as far as an export asks (spec 4.1).

A history has 75,000 segments and an export takes a few: neither the list of all segments nor the
receipts of all volumes are read for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from transforms.block_range import BlockRange
from transforms.duck import file_connection, quote_files
from transforms.segments.segment_name import SegmentName
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.manifest import receipts_source
from transforms.warehouse.manifests.receipts import Receipt, parse_columns

_RECEIPTS = (
    "select chain_id, schema_version, first_block, last_block, columns, rows, bytes, sha256 "
    "from {} where table_name = $1 and last_block >= $2 and first_block <= $3 order by first_block"
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

    def rows(self, table: str, blocks: BlockRange) -> Path | None:
        """The data file with a segment's rows of a table; None where it has none.

        Raises `RangeError` where the segment is not loaded.
        """
        ...


class CatalogHoldings:
    """One generation of a warehouse, read from its manifests."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def receipts(self, table: str, blocks: BlockRange) -> list[Receipt]:
        """See `Holdings.receipts`."""
        manifests = [volume.file for volume in self._catalog.volumes_over(blocks)]
        if not manifests:
            return []
        self._catalog.files.bring(manifests)
        paths = [self._catalog.files.path(manifest) for manifest in manifests]
        source = receipts_source(quote_files(paths))
        with file_connection(len(paths)) as con:
            result = con.execute(receipts_sql(source), [table, blocks.first, blocks.last])
            return table_receipts(table, result.fetchall())

    def segments(self) -> list[SegmentName]:
        """See `Holdings.segments`."""
        return [segment.name for segment in self._catalog.segments.values()]

    def rows(self, table: str, blocks: BlockRange) -> Path | None:
        """See `Holdings.rows`."""
        return self._catalog.data_path(blocks, table)


def receipts_sql(source: str) -> str:
    """SQL over receipts for `table_receipts`: `$1` is the table, `$2` and `$3` are the blocks."""
    return _RECEIPTS.format(source)


def table_receipts(table: str, rows: Iterable[Sequence[Any]]) -> list[Receipt]:
    """Receipts from the rows of `receipts_sql`; equal columns are one schema."""
    return [Receipt(_name(row), _parsed_columns(table, row[4]), *row[5:8]) for row in rows]


def _name(row: Sequence[Any]) -> SegmentName:
    return SegmentName(row[0], row[1], BlockRange(row[2], row[3]))
