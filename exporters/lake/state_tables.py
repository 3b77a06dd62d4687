"""The lake's current-state tables: the newest copy of each, which replaces the one before."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake_file_check import FileCheck
from exporters.lake.lake_files import Lake
from exporters.lake.proving import fetched
from exporters.lake.reports import AddedRows, LakeReport, each_alone
from exporters.lake.rewriting import put_in_place
from exporters.lake.tables import LakeTable, NewFile, Version
from exporters.lake.trying import versions
from exporters.publishing.replace import Correction
from transforms.errors import BusyError, IntegrityError, RangeError
from transforms.lake.parquet_files import WrittenFile
from transforms.lake.state_rows import StateRows
from transforms.scratch import scratch_folder
from transforms.stores.store import LostRaceError
from transforms.tables.file_columns import OWN_COLUMNS
from transforms.warehouse.manifests.receipts import Receipt

_WORKERS = 8
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


def publish_state(
    lake: Lake, state: StateRows, scratch: Path, *, is_recent_enough: bool
) -> LakeReport:
    """Put the newest copy of every current-state table there, unless a newer or an equal one is.

    Each replaces the one before in one version of its table. What cannot be added is in the report.
    Dozens of tables do not change for days: with `is_recent_enough`, of those that this machine
    left with the same rows within the last hour nothing is asked.
    """
    tables = [table for table in sorted(state.receipts) if is_state(table)]
    if is_recent_enough:
        tables = [table for table in tables if not _had_rows(lake, state, table)]
    with ThreadPoolExecutor(_WORKERS) as pool:
        reports = list(pool.map(partial(_published, lake, state, scratch), tables))
    report = LakeReport()
    for table_report in reports:
        report = report.and_(table_report)
    return report


def is_state(table: str) -> bool:
    """Whether the lake can have a table of a dump of current state."""
    return table != RECEIPTS and _NAME.fullmatch(table) is not None


def correct_state(
    lake: Lake, state: StateRows, table: str, correction: Correction, scratch: Path
) -> int:
    """Put the newest copy of a current-state table there if it is not, on the record.

    Returns how many files were written or dropped. Raises `RangeError` where the warehouse has no
    such table, or an older copy than the lake.
    """
    receipt = state.receipts.get(table)
    if receipt is None or not is_state(table):
        raise RangeError(f"the current state that is loaded has no table {table}")
    for version in versions(LakeTable(lake, table)):
        if version is None:
            return len(_put(lake, state, scratch, table).added)
        try:
            return _correct(version, state, receipt, correction, scratch)
        except LostRaceError:
            continue
    raise BusyError(f"others keep changing {lake.place(table)}: try again later")


def _correct(
    version: Version, state: StateRows, receipt: Receipt, correction: Correction, scratch: Path
) -> int:
    table = version.table
    newest = max((file.blocks.last for file in version.ours), default=-1)
    if newest > state.blocks.last:
        raise RangeError(
            f"{version.lake.place(table)} is of block {newest}, what is loaded ends at "
            f"{state.blocks.last}: load what is newer first"
        )
    if _is_sound(version, receipt, scratch):
        return 0
    with scratch_folder(scratch) as folder:
        parquet = state.write(table, folder, version.spelling)
        new = _new_file(state, receipt, parquet)
        return put_in_place(version, version.ours, [new], correction)


def _new_file(state: StateRows, receipt: Receipt, parquet: WrittenFile) -> NewFile:
    columns, statistics = parquet.columns, parquet.statistics
    return NewFile(parquet.path, state.blocks, statistics, columns, receipt.sha256)


def _is_sound(version: Version, receipt: Receipt, scratch: Path) -> bool:
    if version.foreign or len(version.ours) != 1:
        return False
    (file,) = version.ours
    with scratch_folder(scratch) as folder:
        copy = folder / "file.parquet"
        try:
            fetched(version.lake, version.table, file, copy)
        except IntegrityError:
            return False
        check = FileCheck(version, file, copy, folder, [receipt.since(file.blocks)])
        return next(check.problems(), None) is None


def _published(lake: Lake, state: StateRows, scratch: Path, table: str) -> LakeReport:
    return each_alone(table, partial(_put, lake, state, scratch, table))


def _had_rows(lake: Lake, state: StateRows, table: str) -> bool:
    """Whether a table had the rows of this state within the last hour; one by others: not."""
    version = LakeTable(lake, table).recent()
    return version is not None and not version.foreign and _has_rows(version, state, table)


def _has_rows(version: Version, state: StateRows, table: str) -> bool:
    """Whether a table has the rows of this state, which may be those of an earlier segment still.

    So it is where it has newer rows. Raises `IntegrityError` where others wrote to it.
    """
    is_newer = any(file.blocks.last >= state.blocks.last for file in version.parsed)
    csvs = [file.name.csv for file in version.parsed]
    return is_newer or csvs == [state.receipts[table].sha256]


def _put(lake: Lake, state: StateRows, scratch: Path, table: str) -> LakeReport:
    lake_table, receipt = LakeTable(lake, table), state.receipts[table]
    for version in versions(lake_table, is_read=False):
        if version is not None and _has_rows(version, state, table):
            return LakeReport()
        with scratch_folder(scratch) as folder:
            parquet = state.write(table, folder, version.spelling if version else {})
            new = _new_file(state, receipt, parquet)
            if version is None:
                version = lake_table.made([*parquet.columns, *OWN_COLUMNS])
                if version.snapshot.files:
                    continue  # somebody else was faster
            added = lake_table.upload(new)
        try:
            lake_table.commit(version, [added], new.columns, [item.file for item in version.parsed])
        except LostRaceError:
            continue
        rows = AddedRows(table, added.name, state.blocks, new.statistics.rows, added.bytes)
        return LakeReport((rows,))
    raise BusyError(f"others keep changing {lake.place(table)}: try again later")
