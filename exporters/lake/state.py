"""The lake's current-state tables: the newest copy of each, which replaces the one before."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake import Lake
from exporters.lake.new_files import scratch_folder
from exporters.lake.reports import AddedRows, LakeReport, Refused
from exporters.lake.tables import LakeTable, NewFile
from exporters.lake.trying import versions
from transforms.errors import BusyError, ConflictError, IntegrityError
from transforms.lake.columns import OWN_COLUMNS
from transforms.lake.state_rows import StateRows
from transforms.stores.store import LostRaceError
from transforms.tables.registry import HISTORY_TABLES

_WORKERS = 8
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


def publish_state(lake: Lake, state: StateRows, scratch: Path) -> LakeReport:
    """Put the newest copy of every current-state table there, unless a newer one is.

    Each replaces the one before in one version of its table. What cannot be added is in the report.
    """
    tables = [table for table in sorted(state.receipts) if is_state(table)]
    with ThreadPoolExecutor(_WORKERS) as pool:
        done = list(pool.map(partial(_published, lake, state, scratch), tables))
    report = LakeReport()
    for one in done:
        report = report.and_(one)
    return report


def is_state(table: str) -> bool:
    """Whether a table of a dump is one that the lake has as current state."""
    return table not in (*HISTORY_TABLES, RECEIPTS) and _NAME.fullmatch(table) is not None


def _published(lake: Lake, state: StateRows, scratch: Path, table: str) -> LakeReport:
    try:
        return _put(lake, state, scratch, table)
    except (ConflictError, IntegrityError) as error:
        return LakeReport(refused=(Refused(table, str(error)),))


def _put(lake: Lake, state: StateRows, scratch: Path, table: str) -> LakeReport:
    held = LakeTable(lake, table)
    for version in versions(held):
        if version and any(file.blocks.last >= state.blocks.last for file in version.parsed):
            return LakeReport()
        with scratch_folder(scratch) as folder:
            written = state.write(table, folder, version.spelling if version else {})
            new = NewFile(written.path, state.blocks, written.statistics, written.columns)
            version = version or held.made([*written.columns, *OWN_COLUMNS])
            added = held.upload(new)
        try:
            held.commit(version, [added], new.columns, version.parsed)
        except LostRaceError:
            continue
        rows = AddedRows(table, added.name, state.blocks, new.statistics.rows, added.bytes)
        return LakeReport((rows,))
    raise BusyError(f"others keep changing {lake.place(table)}: try again later")
