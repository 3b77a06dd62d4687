"""What a warehouse holds of one table, read only as far as an export asks (spec 4.1).

A history has 75,000 segments and an export takes a few: neither the list of all segments nor the
receipts of all volumes are read for it. What a volume holds never changes, so it is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from transforms.block_range import BlockRange
from transforms.bounded_cache import BoundedCache
from transforms.duck import file_connection, quote_files
from transforms.objects import StoredFile
from transforms.segments.segment_name import SegmentName
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.manifest import receipts_source
from transforms.warehouse.manifests.receipt_columns import COLUMNS, ReceiptColumns
from transforms.warehouse.manifests.shapes import Volume

Ask = Callable[[str, Sequence[StoredFile], list[Any]], Sequence[Sequence[Any]]]
"""Gives the rows of a statement that reads these manifests, for its values."""

# Three tables of 75,000 segments.
_CACHE_BYTES = 20 * 2**20
_cache = BoundedCache[ReceiptColumns](_CACHE_BYTES)
# As many bring the memory of one statement to some MiB.
_MANIFESTS_AT_ONCE = 100


class Holdings(Protocol):
    """One snapshot of a warehouse, as exports ask for it."""

    def receipts(self, table: str, blocks: BlockRange) -> ReceiptColumns:
        """The receipts of a table in the segments that hold any of these blocks."""
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
    """One snapshot of a warehouse, read from its manifests."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def receipts(self, table: str, blocks: BlockRange) -> ReceiptColumns:
        """See `Holdings.receipts`."""
        return catalog_receipts(self._catalog, table, blocks, self._rows)

    def _rows(
        self, sql: str, manifests: Sequence[StoredFile], values: list[Any]
    ) -> Sequence[Sequence[Any]]:
        self._catalog.files.bring(manifests)
        with file_connection(len(manifests)) as con:
            return con.execute(sql, values).fetchall()

    def segments(self) -> list[SegmentName]:
        """See `Holdings.segments`."""
        return [segment.name for segment in self._catalog.segments.values()]

    def rows(self, table: str, blocks: BlockRange) -> Path | None:
        """See `Holdings.rows`."""
        return self._catalog.data_path(blocks, table)


def catalog_receipts(catalog: Catalog, table: str, blocks: BlockRange, ask: Ask) -> ReceiptColumns:
    """The receipts of a table over some blocks; manifests that were never read are asked for."""
    volumes = [*catalog.volumes_over(blocks)]
    keys = [(catalog.files.path(volume.file), table) for volume in volumes]
    receipts = [_cache.get(key) for key in keys]
    unread = [number for number, columns in enumerate(receipts) if columns is None]
    for at in range(0, len(unread), _MANIFESTS_AT_ONCE):
        some = unread[at : at + _MANIFESTS_AT_ONCE]
        columns_of_some = _read(catalog, table, [volumes[number] for number in some], ask)
        for number, columns in zip(some, columns_of_some, strict=True):
            _cache.put(keys[number], columns, columns.memory)
            receipts[number] = columns
    return ReceiptColumns.joined(filter(None, receipts)).over(blocks)


def _read(
    catalog: Catalog, table: str, volumes: Sequence[Volume], ask: Ask
) -> Iterator[ReceiptColumns]:
    """The receipts of a table in each of some volumes, which ascend."""
    manifests = [volume.file for volume in volumes]
    source = receipts_source(quote_files([catalog.files.path(file) for file in manifests]))
    sql = f"select {COLUMNS} from {source} where table_name = $1 order by first_block"  # noqa: S608
    together = ReceiptColumns.of(table, ask(sql, manifests, [table]))
    return (together.over(volume.blocks) for volume in volumes)
