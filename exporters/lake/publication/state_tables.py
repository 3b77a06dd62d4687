"""The lake's current-state tables: the newest copy of each, which replaces the one before.

The warehouse's manifest of the state comes last, in a table of its own: once the other tables have
the rows of its receipts, a warehouse can be given the state.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from exporters.archive.archive import won_race
from exporters.archive.lake_place import MANIFESTS, STATE_MANIFEST
from exporters.lake.lake_files import Lake
from exporters.lake.manifest_files import COLUMNS, manifest_statistics
from exporters.lake.tables import LakeReport, LakeTable, NewFile, Version, added_report, each_alone
from transforms.lake.parquet_rows import LoadedState, StateRows
from transforms.scratch import scratch_folder
from transforms.stores.store import asked_together, content_sha256
from transforms.tables.file_columns import OWN_COLUMNS

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


def publish_state(lake: Lake, state: StateRows, scratch: Path) -> LakeReport:
    """Put the newest copy of every current-state table there, unless a newer or an equal one is.

    Each replaces the one before in one version of its table. What cannot be added is in the report.
    """

    def publish(table: str) -> LakeReport:
        put = partial(_put_once, lake, state, scratch, table)
        return each_alone(table, partial(won_race, put, lake.place(table)))

    report = LakeReport()
    tables = sorted(state_digests(state).keys() - {STATE_MANIFEST})
    for table_report in asked_together(lake.archive.store, publish, tables):
        report = report.and_(table_report)
    return report if report.refused else report.and_(publish(STATE_MANIFEST))


def is_state(table: str) -> bool:
    """Whether the lake can have a table of a dump of current state."""
    return table not in (MANIFESTS, STATE_MANIFEST) and _NAME.fullmatch(table) is not None


def state_digests(state: LoadedState) -> dict[str, str]:
    """By table what the names of the lake's files of a state end with.

    That is the hash of the CSV, and of the manifest its own.
    """
    csvs = {table: r.sha256 for table, r in state.receipts.items() if is_state(table)}
    return csvs | {STATE_MANIFEST: state.volume.file.sha256}


def _new_file(state: StateRows, table: str, folder: Path) -> NewFile:
    if table == STATE_MANIFEST:
        path, sha256 = state.manifest(folder), state.volume.file.sha256
        return NewFile(path, state.blocks, sha256, manifest_statistics(path), COLUMNS, sha256)
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
    return is_newer or csvs == [state_digests(state)[table]]


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
