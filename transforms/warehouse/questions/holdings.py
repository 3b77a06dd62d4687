"""What a warehouse holds, read only as far as an export asks (spec 4.1).

A history has 75,000 segments and an export takes a few: neither the list of all segments nor the
receipts of all volumes are read for it. What a volume holds never changes, so it is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.bounded_cache import BoundedCache
from transforms.duck import file_connection
from transforms.objects import StoredFile
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.manifest import read_receipts
from transforms.warehouse.manifests.manifest_rows import RECEIPT_ROWS, rows_over
from transforms.warehouse.manifests.shapes import Volume

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_ROWS = pa.schema(
    [field.with_type(_DICTIONARY) if field.name == "columns" else field for field in RECEIPT_ROWS]
)
# Three tables of 75,000 segments.
_CACHE_BYTES = 32 * 2**20
_cache = BoundedCache[pa.Table](_CACHE_BYTES)
# As many bring the memory of one statement to some MiB.
_MANIFESTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Holdings:
    """One snapshot of a warehouse, as exports ask for it; `read` are the data files it asked."""

    catalog: Catalog
    read: set[Path] = field(default_factory=set)

    def receipts(self, table: str, blocks: BlockRange) -> pa.Table:
        """The receipts of a table in the segments that hold any of these blocks, ascending.

        They are rows of `strata.receipts`, of which `columns` is a dictionary.
        """
        volumes = [*self.catalog.volumes_over(blocks)]
        keys = [(self.catalog.files.path(volume.file), table) for volume in volumes]
        receipts = [_cache.get(key) for key in keys]
        unread = [number for number, rows in enumerate(receipts) if rows is None]
        for at in range(0, len(unread), _MANIFESTS_AT_ONCE):
            some = unread[at : at + _MANIFESTS_AT_ONCE]
            together = self._read(table, [volumes[number].file for number in some])
            for number in some:
                rows = receipts[number] = rows_over(together, volumes[number].blocks)
                _cache.put(keys[number], rows, rows.nbytes)
        return rows_over(pa.concat_tables(receipts or [self._read(table, [])]), blocks)

    def _read(self, table: str, manifests: Sequence[StoredFile]) -> pa.Table:
        files = self.catalog.files
        with files.hold(manifests):
            rows = read_receipts([*map(files.path, manifests)], table=table)
        # A copy: DuckDB gives memory free only when no column of its rows is left.
        return pa.Table.from_pydict(rows.to_pydict(), _ROWS)

    def segment_times(self, volume: Volume) -> Sequence[tuple[int, int, int]]:
        """The first block of each of a volume's segments, and its first and last `vega_time`.

        They ascend; those without rows of blocks are left out.
        """
        file = volume.data.get("blocks")
        if file is None:
            return ()
        shape, path = volume.shapes["blocks"], self.catalog.files.path(file)
        self.read.add(path)
        source = rows_sql("blocks", shape.column_list(), [path], shape.raw)
        with self.catalog.files.hold([file]), file_connection() as con:
            return con.execute(
                "select _segment, epoch_us(min(vega_time)), epoch_us(max(vega_time)) "  # noqa: S608 - quoted
                f"from {source} where isfinite(vega_time) group by 1 order by 1"
            ).fetchall()

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
