"""Keeping the lake's files few: neighbours are merged, files that no version names are removed."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.delta import KEPT_HOURS
from exporters.lake.lake import FileName, Lake
from exporters.lake.rewriting import merge_files
from exporters.lake.tables import LakeTable
from transforms.blocks import BlockRange
from transforms.lake.rows import LakeRows
from transforms.stores.store import LostRaceError
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.merge_plan import MOST_PARTIAL, MergeLimits, plan_merges

LAKE_FILES = MergeLimits(256 * 2**20, 3)
"""How large the files of the lake become: large enough for a scan, small enough to skip."""

RowsOver = Callable[[BlockRange], AbstractContextManager[LakeRows | None]]
"""Opens what a run of files is written anew from; None where the warehouse has not just that."""

_LOGGED = re.compile(
    r"\d{20}(?:\.[0-9.]+)?(?:\.compacted)?(?:\.checkpoint[0-9a-f.-]*)?\.(?:json|parquet|crc)"
    r"|_last_checkpoint|_sidecars/.*"
)
_log = logging.getLogger(__name__)


def merge_lake(
    lake: Lake, rows_over: RowsOver, scratch: Path, limits: MergeLimits = LAKE_FILES
) -> int:
    """Merge neighbours until nothing is worth merging; returns how many files that left fewer.

    See `transforms.warehouse.merge_plan`: no byte is written anew more than three times.
    """
    return sum(
        _merge_table(lake, table, rows_over, scratch, limits)
        for table in (*HISTORY_TABLES, RECEIPTS)
    )


def _merge_table(
    lake: Lake, table: str, rows_over: RowsOver, scratch: Path, limits: MergeLimits
) -> int:
    fewer = 0
    while version := LakeTable(lake, table).version():
        plan = next(iter(plan_merges(version.files, MOST_PARTIAL, limits)), None)
        if plan is None:
            break
        with rows_over(BlockRange(plan[0].blocks.first, plan[-1].blocks.last)) as rows:
            if rows is None:
                break
            try:
                merge_files(lake, version, plan, rows, scratch)
            except LostRaceError as error:
                _log.info("%s", error)
                break  # who was faster merges, or the next one does
        fewer += len(plan) - 1
    return fewer


def sweep_lake(lake: Lake, kept_hours: int = KEPT_HOURS) -> list[str]:
    """Remove files that no version of the last week names, orphans of killed publishers among them.

    Returns their paths below the chain's folder. Less than a week is for who knows that nobody
    publishes or reads.
    """
    removed = []
    for table in tables_there(lake):
        found = [*_expired(lake, table, kept_hours), *_unfinished(lake, table, kept_hours)]
        for path in found:
            lake.archive.store.delete(lake.archive.key(path))
        removed += found
    return removed


def _expired(lake: Lake, table: str, kept_hours: int) -> list[str]:
    version = LakeTable(lake, table).version()
    names = lake.log(table).expired(version.snapshot, kept_hours) if version else []
    ours = [name for name in names if FileName.parse(name)]
    if not ours:
        return []
    # What was left by a killed publisher may have been taken up while it was listed.
    newest = LakeTable(lake, table).version()
    named = {file.name for file in newest.snapshot.files} if newest else set()
    # The log names what was removed long after it is gone.
    there = {info.key for info in lake.archive.store.list(lake.key(table, ""))}
    return [
        lake.path(table, name)
        for name in ours
        if name not in named and lake.key(table, name) in there
    ]


def tables_there(lake: Lake) -> list[str]:
    """The tables of the lake, by the names of its objects."""
    start = len(lake.folder)
    keys = (info.key[start:] for info in lake.archive.store.list(lake.folder))
    return sorted({key.partition("/")[0] for key in keys if "/" in key})


def _unfinished(lake: Lake, table: str, kept_hours: int) -> list[str]:
    """What killed commits left in a log's folder, a week later."""
    folder = lake.path(table, "_delta_log/")
    start = len(lake.archive.key(folder))
    oldest = time.time() - kept_hours * 3600
    return [
        f"{folder}{info.key[start:]}"
        for info in lake.archive.store.list(lake.archive.key(folder))
        if info.modified < oldest and not is_of_log(info.key[start:])
    ]


def is_of_log(name: str) -> bool:
    """Whether a file in a log's folder is one of the log, by its name."""
    return _LOGGED.fullmatch(name) is not None
