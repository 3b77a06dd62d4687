"""What is known of the network, its segments and time, and of this server (decisions 10, 11)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from importlib.metadata import version

from api.core.errors import FailedError, Reason
from api.core.snapshots import Snapshot
from api.queries.pagination import Record
from api.queries.requests import ListSegments
from transforms.warehouse.receipts import LoadedSegment

MOST_SEGMENTS = 10_000
"""The most in one answer: as many as go into a message that gRPC's clients take (4 MiB)."""

_FIRST_BLOCK, _LAST_BLOCK = 0, 1


def list_segments(snapshot: Snapshot) -> list[Record]:
    """The loaded segments, newest first; no query, and made once per generation."""
    return snapshot.once("segments", _segments)


def segments_page(snapshot: Snapshot, request: ListSegments) -> Sequence[Record]:
    """The newest of the segments that are asked for, newest first."""
    segments, start = list_segments(snapshot), _start(snapshot, request)
    return segments[start : start + MOST_SEGMENTS]


def older_segments(snapshot: Snapshot, request: ListSegments) -> int | None:
    """The `to_block` that asks for the segments after a page; None where there are none."""
    segments, stop = list_segments(snapshot), _start(snapshot, request) + MOST_SEGMENTS
    return segments[stop - 1][_FIRST_BLOCK] - 1 if stop < len(segments) else None


def vega_time(snapshot: Snapshot) -> Record:
    """The time of the newest loaded block. Raises `FailedError` where there is none."""
    if snapshot.newest is None:
        raise FailedError(Reason.LAST_BLOCK, "no block is loaded")
    return (snapshot.newest.time,)


def info(commit: str = "") -> Record:
    """The version of this server, and the commit that it was built from where that is known."""
    return f"v{version('strata')}", commit


def _start(snapshot: Snapshot, request: ListSegments) -> int:
    if request.to_block is None:
        return 0
    segments = list_segments(snapshot)
    return bisect_left(segments, -request.to_block, key=lambda record: -record[_LAST_BLOCK])


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
