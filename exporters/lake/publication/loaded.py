"""What of the warehouse the lake is written from, and whether the lake has just that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake_files import Lake
from exporters.lake.proving import fetched
from exporters.lake.receipt_file import parse_receipts, read_receipt_rows, receipt_rows
from exporters.lake.tables import LakeTable
from transforms.block_range import BlockRange
from transforms.lake.parquet_rows import LakeRows, lake_rows
from transforms.scratch import scratch_folder
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.warehouse import Warehouse


@contextmanager
def rows_over(
    lake: Lake, warehouse: Warehouse, scratch: Path, blocks: BlockRange
) -> Iterator[LakeRows | None]:
    """Open the loaded rows of a volume over these blocks; None where the lake has others, or more.

    What is merged must stay what it was: a correction is made on the record, and not by merging.
    """
    segments = sorted(warehouse.loaded_catalog().segments_over(blocks))
    with lake_rows(warehouse, segments) as rows:
        is_same = receipt_rows(rows.receipts) == receipt_rows(lake_receipts(lake, blocks, scratch))
        yield rows if is_same else None


def lake_receipts(lake: Lake, blocks: BlockRange, scratch: Path) -> list[Receipt]:
    """What the lake says of the segments in these blocks, ascending; reads their files alone.

    Raises `IntegrityError` where a file is damaged.
    """
    version = LakeTable(lake, RECEIPTS).expected()
    receipts: list[Receipt] = []
    for file in version.holding(blocks) if version else ():
        with scratch_folder(scratch) as folder:
            copy = folder / "receipts.parquet"
            fetched(lake, RECEIPTS, file, copy)
            receipts += parse_receipts(read_receipt_rows(copy), lake.archive.chain_id)
    return [receipt for receipt in receipts if blocks.holds(receipt.blocks)]
