"""What is known of the network, its segments and time (decisions 10, 11)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from api.core.api_errors import FailedError, Reason
from api.core.descriptors import Request, given
from api.core.open_snapshots import OpenSnapshot
from api.core.workers import Headers
from api.queries.pagination import Record
from transforms.warehouse.manifests.segment_list import SegmentList

MOST_SEGMENTS = 10_000
"""The most in one answer: as many as go into a message that gRPC's clients take (4 MiB)."""


def segments_page(snapshot: OpenSnapshot, request: Request) -> Sequence[Record]:
    """The newest of the segments that are asked for, newest first; no query."""
    segments = _segments(snapshot)
    return [_record(segments, at) for at in reversed(_places(segments, request))]


def newest_segment(snapshot: OpenSnapshot) -> Record | None:
    """The newest segment; None where there is none."""
    segments = _segments(snapshot)
    return _record(segments, len(segments) - 1) if len(segments) else None


def next_headers(snapshot: OpenSnapshot, request: Request) -> Headers:
    """The header that says with which `to_block` the segments go on after a page, if they do."""
    segments = _segments(snapshot)
    start = _places(segments, request).start
    return (("x-next-to-block", str(segments.firsts[start] - 1)),) if start else ()


def history_status(snapshot: OpenSnapshot) -> Record:
    """Address, key, chain and peers of the peer-to-peer store, of which only the chain is here."""
    return "", "", snapshot.catalog.chain_id, ()


def vega_time(snapshot: OpenSnapshot) -> Record:
    """The time of the newest loaded block. Raises `FailedError` where there is none."""
    if snapshot.newest is None:
        raise FailedError(Reason.LAST_BLOCK, "no block is loaded")
    return (snapshot.newest.time,)


def _segments(snapshot: OpenSnapshot) -> SegmentList:
    return snapshot.once(
        "segments", lambda opened: SegmentList.joined(opened.segment_lists.values())
    )


def _places(segments: SegmentList, request: Request) -> range:
    """Where the segments of a page are, ascending."""
    last = given(request).get("to_block")
    end = len(segments) if last is None else bisect_right(segments.lasts, last)
    return range(max(0, end - MOST_SEGMENTS), end)


def _record(segments: SegmentList, at: int) -> Record:
    first = segments.firsts[at]
    follows = at > 0 and segments.lasts[at - 1] == first - 1
    return (
        first,
        segments.lasts[at],
        segments.ids[at],
        segments.previous[at] or (segments.ids[at - 1] if follows else ""),
        segments.versions[at],
        segments.chains[at],
    )
