"""Making the file of a table over a run of segments: its rows, or the receipts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.receipt_file import write_receipts
from exporters.lake.tables import NewFile
from transforms.block_range import BlockRange
from transforms.lake.parquet_rows import LakeRows
from transforms.warehouse.manifests.receipts import Receipt


def new_file(
    rows: LakeRows, table: str, run: BlockRange, folder: Path, spelling: Mapping[str, str]
) -> NewFile:
    """Write a table of history, or the receipts, over a run of segments into an empty folder.

    Raises `IntegrityError` where what is written does not render to what was loaded.
    """
    if table == RECEIPTS:
        path = folder / f"{table}.parquet"
        return NewFile(path, run, write_receipts(path, receipts_of(rows, run)), ())
    parquet = rows.write(table, run, folder, spelling)
    return NewFile(parquet.path, run, parquet.statistics, parquet.columns)


def receipts_of(rows: LakeRows, run: BlockRange) -> list[Receipt]:
    """The receipts of all tables of the segments in a run."""
    return [receipt for receipt in rows.receipts if run.holds(receipt.blocks)]
