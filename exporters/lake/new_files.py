"""Files that are to be put into a table of the lake, while they lie on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake_files import FileName
from exporters.lake.receipt_file import write_receipts
from transforms.block_range import BlockRange
from transforms.lake.parquet_rows import LakeRows
from transforms.lake.statistics import Statistics
from transforms.stores.store import content_sha256
from transforms.tables.file_columns import FileColumn
from transforms.warehouse.manifests.receipts import Receipt


@dataclass(frozen=True)
class NewFile:
    """A finished file that is to be put into a table; see `FileName` for `csv`."""

    path: Path
    blocks: BlockRange
    statistics: Statistics
    columns: Sequence[FileColumn]
    csv: str = ""

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of its bytes (hex)."""
        return content_sha256(self.path)

    @property
    def name(self) -> str:
        """What it is called in its table."""
        return str(FileName.of(self.blocks, self.sha256, self.csv))


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
