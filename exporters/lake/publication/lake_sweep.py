"""Removing what no version of a table has named for a week."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from math import inf

from exporters.archive.lake_place import LOG
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import KEPT_HOURS, FileName
from exporters.lake.tables import LakeReport, LakeTable, Version, each_alone
from transforms.objects import ObjectInfo
from transforms.stores.store import asked_together

_LOGGED = re.compile(
    r"\d{20}(?:\.[0-9.]+)?(?:\.compacted)?(?:\.checkpoint[0-9a-f.-]*)?\.(?:json|parquet|crc)"
    r"|_last_checkpoint|_sidecars/.*"
)


def sweep_lake(lake: Lake, kept_hours: int = KEPT_HOURS) -> LakeReport:
    """Remove files that no version of the last week names, orphans of killed publishers among them.

    Ages are by the store's clock. In the report are their paths, and the tables that are damaged or
    that others wrote to, which stay as they are. Less than a week is for who knows that nobody
    publishes or reads. Costs a listing of the lake, and a reading of logs that others wrote to.
    """
    oldest = lake.archive.store.now() - kept_hours * 3600
    listed = lake.listing()

    def sweep_table(table: str) -> LakeReport:
        return each_alone(table, partial(_sweep_table, lake, table, listed[table], oldest))

    report = LakeReport()
    tables = filter(None, sorted(listed))
    for table_report in asked_together(lake.archive.store, sweep_table, tables):
        report = report.and_(table_report)
    return report


def _sweep_table(lake: Lake, table: str, infos: Sequence[ObjectInfo], oldest: float) -> LakeReport:
    version = LakeTable(lake, table).listed(infos)
    if version is None:
        return LakeReport()
    version.check_foreign()
    old = ((lake.parts(info.key)[1], info) for info in infos if info.modified <= oldest)
    since = {name: unnamed_since(version, name, info) for name, info in old}
    due = [name for name, seconds in since.items() if seconds is not None and seconds <= oldest]
    # What was left by a killed publisher may have been taken up while it was listed.
    newest = LakeTable(lake, table).version() if due else None
    removed = [name for name in due if newest is not None and name not in newest.named]
    for name in removed:
        lake.archive.store.delete(lake.key(table, name))
    return LakeReport(removed=tuple(lake.path(table, name) for name in removed))


def unnamed_since(version: Version, name: str, info: ObjectInfo) -> float | None:
    """Since when no version names a file of a table's folder, which is listed so.

    Infinity where one does; None for what somebody else put there and no log ever named.
    """
    if name.startswith(f"{LOG}/"):  # the log itself tidies up its own files
        return inf if _LOGGED.fullmatch(name, len(LOG) + 1) else info.modified
    if name in version.named:
        return inf
    removed = version.content.removed_at(name)
    if removed is None and FileName.parse(name) is None:
        return None
    return max(removed or 0.0, info.modified)
