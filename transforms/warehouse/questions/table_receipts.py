"""The receipts of one table, read only as far as an export asks (spec 4.1).

A history has 75,000 segments and an export takes a few: neither the list of all segments nor the
receipts of all volumes are read for it. What a volume holds never changes, so it is read once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.bounded_cache import BoundedCache
from transforms.objects import StoredFile
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.manifest import read_receipts
from transforms.warehouse.manifests.manifest_rows import RECEIPT_ROWS, rows_over

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_ROWS = pa.schema(
    [field.with_type(_DICTIONARY) if field.name == "columns" else field for field in RECEIPT_ROWS]
)
# Three tables of 75,000 segments.
_CACHE_BYTES = 32 * 2**20
_cache = BoundedCache[pa.Table](_CACHE_BYTES)
# As many bring the memory of one statement to some MiB.
_MANIFESTS_AT_ONCE = 100


def table_receipts(catalog: Catalog, table: str, blocks: BlockRange) -> pa.Table:
    """The receipts of a table in the segments that hold any of these blocks, ascending.

    They are rows of `strata.receipts`, of which `columns` is a dictionary.
    """
    volumes = catalog.volumes_over(blocks)
    keys = [(catalog.files.path(volume.file), table) for volume in volumes]
    receipts = [_cache.get(key) for key in keys]
    unread = [number for number, rows in enumerate(receipts) if rows is None]
    for at in range(0, len(unread), _MANIFESTS_AT_ONCE):
        some = unread[at : at + _MANIFESTS_AT_ONCE]
        together = _read(catalog, table, [volumes[number].file for number in some])
        for number in some:
            rows = receipts[number] = rows_over(together, volumes[number].blocks)
            _cache.put(keys[number], rows, rows.nbytes)
    return rows_over(pa.concat_tables(receipts or [_read(catalog, table, [])]), blocks)


def _read(catalog: Catalog, table: str, manifests: Sequence[StoredFile]) -> pa.Table:
    with catalog.files.hold(manifests):
        rows = read_receipts([*map(catalog.files.path, manifests)], table=table)
    # A copy: DuckDB gives memory free only when no column of its rows is left.
    return pa.Table.from_pydict(rows.to_pydict(), _ROWS)
