"""The lake's current-state tables: the newest copy of each, which replaces the one before."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from exporters.archive.archive import won_race
from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_file_check import is_sound
from exporters.lake.lake_files import Lake
from exporters.lake.publication.corrections import put_in_place
from exporters.lake.tables import LakeReport, LakeTable, NewFile, Version, added_report, each_alone
from exporters.publishing.replace import Correction
from transforms.errors import RangeError
from transforms.lake.parquet_rows import StateRows
from transforms.scratch import scratch_folder
from transforms.stores.store import asked_together, content_sha256
from transforms.tables.file_columns import OWN_COLUMNS
from transforms.warehouse.manifests.receipts import Receipt

_WORKERS = 8
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


def publish_state(lake: Lake, state: StateRows, scratch: Path) -> LakeReport:
    """Put the newest copy of every current-state table there, unless a newer or an equal one is.

    Each replaces the one before in one version of its table. What cannot be added is in the report.
    """
    tables = [table for table in sorted(state.receipts) if is_state(table)]
    report, publish = LakeReport(), partial(_published, lake, state, scratch)
    for table_report in asked_together(lake.archive.store, publish, tables, _WORKERS):
        report = report.and_(table_report)
    return report


def is_state(table: str) -> bool:
    """Whether the lake can have a table of a dump of current state."""
    return table != MANIFESTS and _NAME.fullmatch(table) is not None


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
    correct = partial(_correct, lake, state, receipt, correction, scratch)
    return won_race(correct, lake.place(table))


def _correct(
    lake: Lake, state: StateRows, receipt: Receipt, correction: Correction, scratch: Path
) -> int:
    table = receipt.table
    version = LakeTable(lake, table).version()
    if version is None:
        return len(_put_once(lake, state, scratch, table).added)
    newest = max((file.blocks.last for file in version.ours), default=-1)
    if newest > state.blocks.last:
        raise RangeError(
            f"{lake.place(table)} is of block {newest}, what is loaded ends at "
            f"{state.blocks.last}: load what is newer first"
        )
    if not version.foreign and len(version.ours) == 1:
        (file,) = version.ours
        if is_sound(version, file, [receipt.since(file.blocks)], scratch):
            return 0
    with scratch_folder(scratch) as folder:
        new = _new_file(state, table, folder)
        put_in_place(version, [new], version.ours, correction)
    return 1 + len(version.foreign)


def _new_file(state: StateRows, table: str, folder: Path) -> NewFile:
    file = state.write(table, folder)
    columns, sha256 = (*file.columns, *OWN_COLUMNS), content_sha256(file.path)
    csv = state.receipts[table].sha256
    return NewFile(file.path, state.blocks, sha256, file.statistics, columns, csv)


def _published(lake: Lake, state: StateRows, scratch: Path, table: str) -> LakeReport:
    put = partial(_put_once, lake, state, scratch, table)
    return each_alone(table, partial(won_race, put, lake.place(table)))


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
