"""Readers pass over files by what the log says of them, and never over one that has the rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pyarrow.dataset import Dataset, field

from exporters.lake.log.table_version import ActiveFile, TableVersion
from exporters.lake.tables import LakeTable
from transforms.lake.statistics import read_statistics
from transforms.stores.folder_store import FolderStore
from transforms.tables.file_columns import OWN_COLUMNS, FileColumn, file_columns, file_rows
from transforms.tables.registry import Column

_NUMBER = FileColumn("number", "long", has_statistics=True)
_TIME = Column("time", "timestamp with time zone")


class Written:
    """A table that is made of files as they come."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._log = LakeTable(FolderStore(folder.parent), folder.name)

    def add(self, columns: list[FileColumn], rows: str) -> None:
        """Add a file with the rows of a query, and the columns that the table lacks."""
        version = self._log.version()
        there = (version or TableVersion()).fields
        names = {field["name"] for field in there}
        lacking = [column for column in (*columns, *OWN_COLUMNS) if column.name not in names]
        number = len(list(self._folder.iterdir()))
        path = self._folder / f"{number}-{number}.{number:016x}.parquet"
        con = duckdb.connect()
        con.execute(f"copy ({rows}) to '{path}'")
        described = [column for column in columns if column.has_statistics]
        statistics = read_statistics(con, f"read_parquet('{path}')", described)
        added = [ActiveFile(path.name, path.stat().st_size, statistics.text)]
        self._log.commit(version, added, columns=lacking)

    def dataset(self) -> Dataset:
        """What deltalake gives to pyarrow, and so to whatever asks pyarrow."""
        return DeltaTable(self._folder).to_pyarrow_dataset()


_OLD = "select 1 as _segment, 1 as _row from range(4)"
_NEW = "select 5 as _segment, 1 as _row, range as number from range(3)"


@pytest.mark.parametrize("old_first", [True, False])
def test_rows_that_lack_a_column_are_found(tmp_path: Path, old_first: bool) -> None:
    table = Written(tmp_path / "table")
    files: list[tuple[list[FileColumn], str]] = [([], _OLD), ([_NUMBER], _NEW)]
    for columns, rows in files if old_first else reversed(files):
        table.add(columns, rows)
    dataset = table.dataset()
    assert dataset.count_rows(filter=field("number").is_null()) == 4
    assert dataset.count_rows(filter=field("number") == 2) == 1
    assert dataset.count_rows(filter=field("_segment") == 1) == 4


def test_times_up_to_the_last_that_engines_read_are_found(tmp_path: Path) -> None:
    (column,) = file_columns("orders", [_TIME])
    times = ["9999-12-31 23:59:59.998999", "9999-12-31 23:59:59.999", "9999-12-31 23:59:59.999999"]
    cells = ", ".join(f"(timestamptz '{time}+00')" for time in times)
    held = (
        "(select time, 1 as _segment, row_number() over () as _row, "
        f"null::map(varchar, varchar) as _raw from (values {cells}) as held(time))"
    )
    table = Written(tmp_path / "table")
    table.add([column], file_rows("orders", [_TIME], held))
    dataset = table.dataset()
    far = datetime(9999, 12, 31, 23, 59, 59, 998_999, tzinfo=UTC)
    assert dataset.count_rows(filter=field("time") >= far) == 2
    assert dataset.count_rows(filter=field("time").is_null()) == 1
    kept = dataset.to_table(filter=field("time").is_null())["_raw"].to_pylist()
    assert kept == [[("time", "9999-12-31 23:59:59.999999+00")]]
