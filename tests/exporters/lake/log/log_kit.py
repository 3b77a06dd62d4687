"""A table's log whose files are only named: for what a commit needs, and what becomes of it."""

from __future__ import annotations

from exporters.lake.log.table_schema import delta_field
from exporters.lake.log.table_version import ActiveFile, TableVersion
from exporters.lake.tables import LakeTable
from transforms.block_range import BlockRange
from transforms.stores.store import Store

KEY = "net-1/lake/orders"
COLUMNS = [delta_field("_segment", "long"), delta_field("_row", "long")]


def named(number: int) -> ActiveFile:
    """A file of two blocks, by its number from 1."""
    blocks = BlockRange(number * 2 - 1, number * 2)
    return ActiveFile(f"{blocks}.{number:016x}.parquet", 10, 1)


def new_log(store: Store) -> LakeTable:
    """A table that was just made."""
    log = LakeTable(store, KEY)
    log.commit(TableVersion(), [], columns=COLUMNS)
    return log


def newest(log: LakeTable) -> TableVersion:
    """The newest version of a table that is there."""
    log.look()
    found = log.version()
    assert found.number >= 0
    return found


def commit(log: LakeTable, *numbers: int) -> None:
    """Name files, each in a commit of its own."""
    for number in numbers:
        log.commit(newest(log), [named(number)])


def names(log: LakeTable) -> list[str]:
    """What the newest version names."""
    return [file.name for file in newest(log).files]
