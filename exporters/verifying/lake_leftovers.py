"""What lies in a lake beside its tables: what logs do not name any more, or not yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from exporters.lake.lake_files import Lake
from exporters.lake.publication.lake_sweep import unnamed_since
from exporters.lake.tables import Version
from exporters.verifying.listing import StoreListing
from transforms.verifying.verification import YOUNG_SECONDS


def cross_off_leftovers(
    lake: Lake, listing: StoreListing, versions: Mapping[str, Version], damaged: Collection[str]
) -> None:
    """Cross off what belongs to the lake, and what who publishes removes after a week.

    Of the tables in `damaged` nothing is known. What is left then is a stranger.
    """
    accounted = []
    for info in listing.left(lake.folder):
        table, name = lake.parts(info.key)
        is_young = listing.time - info.modified < YOUNG_SECONDS
        version = versions.get(table)
        is_ours = version is not None and unnamed_since(version, name, info) is not None
        if table in damaged or is_young or is_ours:
            accounted.append(info.key)
    listing.cross_off(accounted)
