"""Removing what no version of a table has named for a week."""

from __future__ import annotations

from exporters.lake.lake_files import Lake
from exporters.lake.log.table_schema import KEPT_HOURS
from exporters.lake.log.table_version import parsed_name
from exporters.lake.tables import LakeTable


def sweep_lake(lake: Lake, kept_hours: int = KEPT_HOURS) -> dict[str, str]:
    """Remove files that no version of the last week names, orphans of killed publishers among them.

    Ages are by the store's clock. Returns why tables stay as they are that are damaged or that
    others wrote to. Less than a week is for who knows that nobody publishes or reads. Costs a
    listing of the lake, and a reading of logs that others wrote to.
    """
    store = lake.archive.store
    oldest = store.now() - kept_hours * 3600

    def sweep(table: LakeTable) -> None:
        if _unnamed(table, oldest):
            table.look()  # what a killed publisher left may have been taken up meanwhile
            for path in _unnamed(table, oldest):
                store.delete(table.key(path))

    return lake.refusals(sweep, lake.look())


def _unnamed(table: LakeTable, oldest: float) -> list[str]:
    """The files of ours that no version has named since a time; none where there is no table."""
    version = table.version()
    removed = {name: (old.get("deletionTimestamp") or 0) for name, old in version.removed.items()}
    return [
        name
        for name, info in table.infos.items()
        if version.number >= 0 and parsed_name(name) and name not in version.added
        if max(removed.get(name, 0) / 1000, info.modified) <= oldest
    ]
