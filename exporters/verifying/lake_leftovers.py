"""What lies in a lake and its logs do not name any more, or not yet."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from exporters.lake.delta import KEPT_HOURS
from exporters.lake.lake import FileName, Lake
from exporters.lake.maintenance import is_of_log
from exporters.lake.tables import Version
from exporters.verifying.listing import Listing
from transforms.objects import ObjectInfo
from transforms.verifying.findings import Finding, Problem, Remedy
from transforms.verifying.verification import YOUNG_SECONDS

_KEPT_SECONDS = 2 * KEPT_HOURS * 3600
"""Who publishes removes such files after half of that."""


def leftover_findings(
    lake: Lake,
    listing: Listing,
    versions: Mapping[str, Version],
    damaged: Collection[str],
    remedy: Remedy,
) -> Iterator[Finding]:
    """Cross off what belongs to the lake, and yield what should have been removed by now.

    Of the tables in `damaged` nothing is known. What is left then is a stranger.
    """
    accounted = []
    for info in listing.left(lake.folder):
        table, _, name = info.key[len(lake.folder) :].partition("/")
        since = _since(name, info, versions[table]) if table in versions else None
        if table in damaged or listing.time - info.modified < YOUNG_SECONDS:
            accounted.append(info.key)
        elif since is not None:
            accounted.append(info.key)
            if listing.time - since > _KEPT_SECONDS:
                what = "no version of its table has named it for two weeks"
                place = lake.archive.store.describe(info.key)
                yield Finding(Problem.ORPHAN, place, what, remedy)
    listing.cross_off(accounted)


def _since(name: str, info: ObjectInfo, version: Version) -> float | None:
    """Since when no version names a file of Strata (infinity: it is named); None for another."""
    if name.startswith("_delta_log/"):
        is_named = is_of_log(name.removeprefix("_delta_log/"))
        return float("inf") if is_named else info.modified
    if any(file.name == name for file in version.snapshot.files):
        return float("inf")
    removed = version.stored.removed.get(name)
    if FileName.parse(name) is not None:
        return max(removed or 0, info.modified)
    # A file of somebody else that was dropped is for readers of before; then it is a stranger.
    is_kept = removed is not None and time.time() - removed < _KEPT_SECONDS
    return float("inf") if is_kept else None
