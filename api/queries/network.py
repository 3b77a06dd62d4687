"""What is known of the network, its segments and time, and of this server (decisions 10, 11)."""

from __future__ import annotations

from importlib.metadata import version

from api.core.errors import FailedError, Reason
from api.core.snapshots import Snapshot
from api.queries.pagination import Record
from transforms.warehouse.receipts import LoadedSegment


def list_segments(snapshot: Snapshot) -> list[Record]:
    """The loaded segments, newest first; no query, and made once per generation."""
    return snapshot.once("segments", _segments)


def vega_time(snapshot: Snapshot) -> Record:
    """The time of the newest loaded block. Raises `FailedError` where there is none."""
    if snapshot.newest is None:
        raise FailedError(Reason.LAST_BLOCK, "no block is loaded")
    return (snapshot.newest.time,)


def info(commit: str = "") -> Record:
    """The version of this server, and the commit that it was built from where that is known."""
    return f"v{version('strata')}", commit


def _segments(snapshot: Snapshot) -> list[Record]:
    loaded = snapshot.catalog.segments.values()
    ids = {segment.blocks.last: _id(segment) for segment in loaded}
    return [
        (
            segment.blocks.first,
            segment.blocks.last,
            _id(segment),
            segment.previous_id or ids.get(segment.blocks.first - 1, ""),
            segment.name.version,
            segment.name.chain_id,
        )
        for segment in sorted(loaded, key=lambda segment: segment.blocks, reverse=True)
    ]


def _id(segment: LoadedSegment) -> str:
    """The segment's network id; of one that an earlier release loaded, what was known of it."""
    return segment.segment_id or segment.index_id or segment.sha256
