"""What lies in a lake and its logs do not name any more, or not yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import KEPT_HOURS
from exporters.lake.publication.lake_sweep import unnamed_since
from exporters.lake.tables import Version
from exporters.verifying.listing import StoreListing
from transforms.verifying.findings import Finding, Problem, Remedy
from transforms.verifying.verification import YOUNG_SECONDS

_KEPT_SECONDS = 2 * KEPT_HOURS * 3600
"""Who publishes removes such files after half of that."""


def leftover_findings(
    lake: Lake,
    listing: StoreListing,
    versions: Mapping[str, Version],
    damaged: Collection[str],
    remedy: Remedy,
) -> Iterator[Finding]:
    """Cross off what belongs to the lake, and yield what should have been removed by now.

    Of the tables in `damaged` nothing is known. What is left then is a stranger.
    """
    accounted = []
    for info in listing.left(lake.folder):
        table, name = lake.parts(info.key)
        since = unnamed_since(versions[table], name, info) if table in versions else None
        if table in damaged or listing.time - info.modified < YOUNG_SECONDS:
            accounted.append(info.key)
        elif since is not None:
            accounted.append(info.key)
            if listing.time - since > _KEPT_SECONDS:
                what = "no version of its table has named it for two weeks"
                place = lake.archive.store.describe(info.key)
                yield Finding(Problem.ORPHAN, place, what, remedy)
    listing.cross_off(accounted)
