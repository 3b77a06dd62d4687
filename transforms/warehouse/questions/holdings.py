"""What a warehouse holds, read only as far as an export asks (spec 4.1).

A history has 75,000 segments and an export takes a few: neither the list of all segments nor the
receipts of all volumes are read for it. What a volume holds never changes, so it is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transforms.block_range import BlockRange
from transforms.bounded_cache import BoundedCache
from transforms.duck import file_connection, quote_files
from transforms.objects import StoredFile
from transforms.segments.segment_name import SegmentName
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.manifest import receipts_source
from transforms.warehouse.manifests.receipt_columns import COLUMNS, ReceiptColumns
from transforms.warehouse.manifests.shapes import Volume

Ask = Callable[[str, list[Any]], Sequence[Sequence[Any]]]
"""Gives the rows of a statement for its values."""

# Three tables of 75,000 segments.
_CACHE_BYTES = 20 * 2**20
_cache = BoundedCache[ReceiptColumns](_CACHE_BYTES)
# As many bring the memory of one statement to some MiB.
_MANIFESTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Holdings:
    """One snapshot of a warehouse, as exports ask for it.

    `ask` reads files, which are there (None: they are fetched, and read by a connection of its
    own). `read` are the data files that were asked for.
    """

    catalog: Catalog
    ask: Ask | None = None
    read: set[Path] = field(default_factory=set)

    def _rows(self, files: Sequence[StoredFile], sql: str, *values: object) -> Sequence[Any]:
        """The rows of a statement that reads these files."""
        if self.ask is not None:
            return self.ask(sql, [*values])
        with self.catalog.files.hold(files), file_connection(len(files)) as con:
            return con.execute(sql, [*values]).fetchall()

    def receipts(self, table: str, blocks: BlockRange) -> ReceiptColumns:
        """The receipts of a table in the segments that hold any of these blocks.

        Manifests that were never read are asked for; of lost volumes they say it, too.
        """
        volumes = [*self.catalog.volumes_over(blocks)]
        keys = [(self.catalog.files.path(volume.file), table) for volume in volumes]
        receipts = [_cache.get(key) for key in keys]
        unread = [number for number, columns in enumerate(receipts) if columns is None]
        for at in range(0, len(unread), _MANIFESTS_AT_ONCE):
            some = unread[at : at + _MANIFESTS_AT_ONCE]
            together = self._read(table, [volumes[number].file for number in some])
            for number in some:
                columns = together.over(volumes[number].blocks)
                _cache.put(keys[number], columns, columns.memory)
                receipts[number] = columns
        return ReceiptColumns.joined(filter(None, receipts)).over(blocks)

    def _read(self, table: str, manifests: Sequence[StoredFile]) -> ReceiptColumns:
        """The receipts of a table in manifests of volumes that ascend."""
        source = receipts_source(quote_files(map(self.catalog.files.path, manifests)))
        sql = f"select {COLUMNS} from {source} where table_name = $1 order by first_block"  # noqa: S608
        return ReceiptColumns.of(table, self._rows(manifests, sql, table))

    def segments(self) -> list[SegmentName]:
        """All segments, ascending: what a message needs to say which range would be right."""
        return [segment.name for segment in self.catalog.segments.values()]

    def segment_times(self, volume: Volume) -> Sequence[tuple[int, int, int]]:
        """The first block of each of a volume's segments, and its first and last `vega_time`.

        They ascend; those without rows of blocks are left out.
        """
        file = volume.data.get("blocks")
        if file is None:
            return ()
        shape, path = volume.shapes["blocks"], self.catalog.files.path(file)
        return self._rows(
            [file],
            "select _segment, epoch_us(min(vega_time)), epoch_us(max(vega_time)) "  # noqa: S608 - quoted
            f"from {rows_sql('blocks', shape.column_list(), [path], shape.raw)} "
            "where isfinite(vega_time) group by 1 order by 1",
        )

    def times(self, segment: BlockRange) -> tuple[int | None, int | None]:
        """The first and last `vega_time` of a segment; None without rows of blocks."""
        times = self.segment_times(self.catalog.volume_of(segment))
        return next(((a, b) for block, a, b in times if block == segment.first), (None, None))

    def rows(self, table: str, blocks: BlockRange) -> Path | None:
        """The data file with a segment's rows of a table; None where it has none.

        Raises `RangeError` where the segment is not loaded.
        """
        if file := self.catalog.volume_of(blocks).data.get(table):
            self.read.add(self.catalog.files.path(file))
        return self.catalog.data_path(blocks, table)
