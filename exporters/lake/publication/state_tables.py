"""The lake's current-state tables: the newest copy of each, which replaces the one before."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from exporters.archive.archive import won_race
from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_files import Lake
from exporters.lake.tables import LakeReport, LakeTable, NewFile, Version, added_report, each_alone
from transforms.lake.parquet_rows import StateRows
from transforms.scratch import scratch_folder
from transforms.stores.store import asked_together, content_sha256
from transforms.tables.file_columns import OWN_COLUMNS

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


def publish_state(lake: Lake, state: StateRows, scratch: Path) -> LakeReport:
    """Put the newest copy of every current-state table there, unless a newer or an equal one is.

    Each replaces the one before in one version of its table. What cannot be added is in the report.
    """
    tables = [table for table in sorted(state.receipts) if is_state(table)]

    def publish(table: str) -> LakeReport:
        put = partial(_put_once, lake, state, scratch, table)
        return each_alone(table, partial(won_race, put, lake.place(table)))

    report = LakeReport()
    for table_report in asked_together(lake.archive.store, publish, tables):
        report = report.and_(table_report)
    return report


def is_state(table: str) -> bool:
    """Whether the lake can have a table of a dump of current state."""
    return table != MANIFESTS and _NAME.fullmatch(table) is not None


def _new_file(state: StateRows, table: str, folder: Path) -> NewFile:
    file = state.write(table, folder)
    columns, sha256 = (*file.columns, *OWN_COLUMNS), content_sha256(file.path)
    csv = state.receipts[table].sha256
    return NewFile(file.path, state.blocks, sha256, file.statistics, columns, csv)


def _has_rows(version: Version, state: StateRows, table: str) -> bool:
    """Whether a table has the rows of this state, which may be those of an earlier segment still.

    So it is where it has newer rows. Raises `IntegrityError` where others wrote to it.
    """
    version.check_foreign()
    is_newer = any(file.blocks.last >= state.blocks.last for file in version.ours)
    csvs = [file.csv for file in version.ours]
    return is_newer or csvs == [state.receipts[table].sha256]


def _put_once(lake: Lake, state: StateRows, scratch: Path, table: str) -> LakeReport:
    lake_table = LakeTable(lake, table)
    version = lake_table.expected()
    if version is not None and _has_rows(version, state, table):
        return LakeReport()
    with scratch_folder(scratch) as folder:
        new = _new_file(state, table, folder)
        old = version.ours if version else ()
        added = lake_table.put(version, [new], old)
    return added_report(table, added)
