"""Keeping the lake's files few: it follows the warehouse's merges."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake_files import Lake, lake_tables
from exporters.lake.publication.rewriting import merge_files
from exporters.lake.tables import LakeTable, Version
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.lake.parquet_rows import LakeRows
from transforms.machine_errors import MemoryLimitError
from transforms.stores.store import LostRaceError
from transforms.warehouse.manifests.shapes import Volume

RowsOver = Callable[[BlockRange], AbstractContextManager[LakeRows | None]]
"""Opens what a run of files is written anew from; None where the warehouse has not just that."""

_log = logging.getLogger(__name__)


def merge_lake(lake: Lake, volumes: Sequence[Volume], rows_over: RowsOver, scratch: Path) -> int:
    """Join the files that the warehouse has as one; returns how many files that left fewer.

    `volumes` are those of the warehouse, ascending. A table that is damaged, or that others wrote
    to, stays as it is: who publishes to it says so.
    """
    opened = (_mergeable(lake, table) for table in (*lake_tables(volumes), RECEIPTS))
    versions = {version.table: version for version in opened if version}
    fewer = 0
    for volume in volumes:
        due = [version for version in versions.values() if _is_due(version, volume)]
        if not due:
            continue
        with rows_over(volume.blocks) as rows:
            for version in due if rows else ():
                assert rows is not None
                try:
                    merged = merge_files(version, volume.blocks, rows, scratch)
                except LostRaceError as error:
                    _log.info("%s", error)  # who was faster merges, or the next one does
                    del versions[version.table]
                except (IntegrityError, MemoryLimitError) as error:
                    _log.warning("%s was not merged: %s", lake.place(version.table), error)
                else:
                    fewer += len(version.files) - len(merged.files)
                    versions[version.table] = merged
    return fewer


def _mergeable(lake: Lake, table: str) -> Version | None:
    """The expected version of a table; None where it cannot be merged."""
    try:
        version = LakeTable(lake, table).expected()
        return version if version and version.files else None
    except IntegrityError as error:
        _log.warning("%s was not merged: %s", lake.place(table), error)
        return None


def _is_due(version: Version, volume: Volume) -> bool:
    """Whether files of a table lie in a volume's blocks, and are not the one of these."""
    blocks = [lake_file.blocks for lake_file in version.holding(volume.blocks)]
    return bool(blocks) and blocks != [volume.blocks] and all(map(volume.blocks.holds, blocks))
