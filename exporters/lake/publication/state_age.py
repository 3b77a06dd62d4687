"""Whether a lake should get a newer current state by now. Nothing here needs DuckDB."""

from __future__ import annotations

import time
from collections.abc import Sequence

from exporters.archive.lake_place import STATE_MANIFEST
from exporters.lake.lake_files import Lake
from exporters.lake.tables import LakeTable, Version
from transforms.errors import IntegrityError
from transforms.warehouse.manifests.shapes import Volume

_RECENT_SECONDS = 3600


def is_state_due(lake: Lake, states: Sequence[Volume]) -> bool:
    """Whether the lake lacks the newest of these current states, and got none within the hour.

    Dozens of tables change with each segment, and each is written anew whole.
    """
    if not states:
        return False
    try:
        version = LakeTable(lake, STATE_MANIFEST).expected()
    except IntegrityError:  # who publishes names what is damaged
        return True
    if version is None or not version.ours:
        return True
    return version.ours[-1].blocks.last < states[-1].blocks.last and not is_recent(version)


def is_recent(manifest: Version) -> bool:
    """Whether the lake got a current state within the hour: until then newer ones wait."""
    # Only how often: whichever clock is wrong, none is lost.
    added = (manifest.content.added_at(file.name) for file in manifest.ours)
    return any(abs(time.time() - at) < _RECENT_SECONDS for at in added)
