"""What is known of the network, its segments and time (decisions 10, 11)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from api.core.api_errors import FailedError, Reason
from api.core.open_snapshots import OpenSnapshot
from api.queries.pagination import Record
from api.queries.requests import ListSegments
from transforms.warehouse.manifests.receipt_columns import SegmentList, in_order

MOST_SEGMENTS = 10_000
"""The most in one answer: as many as go into a message that gRPC's clients take (4 MiB)."""

_Run = tuple[SegmentList, range]
"""Segments of a list that follow each other, by their places in it."""


def segments_page(snapshot: OpenSnapshot, request: ListSegments) -> Sequence[Record]:
    """The newest of the segments that are asked for, newest first; no query."""
    runs, _ = _newest(snapshot, request)
    return [*_records(snapshot, runs)]


def newest_segment(snapshot: OpenSnapshot) -> Record | None:
    """The newest segment; None where there is none."""
    runs, _ = _newest(snapshot, ListSegments())
    return next(_records(snapshot, runs), None)


def older_segments(snapshot: OpenSnapshot, request: ListSegments) -> int | None:
    """The `to_block` that asks for the segments after a page; None where there are none."""
    runs, are_all = _newest(snapshot, request)
    if are_all or not runs:
        return None
    segments, places = runs[-1]
    return segments.firsts[places[0]] - 1


def history_status(snapshot: OpenSnapshot) -> Record:
    """Address, key, chain and peers of the peer-to-peer store, of which only the chain is here."""
    return "", "", snapshot.catalog.chain_id, ()


def vega_time(snapshot: OpenSnapshot) -> Record:
    """The time of the newest loaded block. Raises `FailedError` where there is none."""
    if snapshot.newest is None:
        raise FailedError(Reason.LAST_BLOCK, "no block is loaded")
    return (snapshot.newest.time,)


def _ascending(snapshot: OpenSnapshot) -> Sequence[SegmentList]:
    return snapshot.once("segments", lambda opened: in_order(opened.known_segments.values()))


def _newest(snapshot: OpenSnapshot, request: ListSegments) -> tuple[list[_Run], bool]:
    """Where the segments of a page are, newest first; whether there are no older ones."""
    room = MOST_SEGMENTS
    runs: list[_Run] = []
    for segments in reversed(_ascending(snapshot)):
        last = request.to_block
        end = len(segments) if last is None else bisect_right(segments.lasts, last)
        if end and not room:
            return runs, False
        if end:
            begin = max(0, end - room)
            runs.append((segments, range(begin, end)))
            room -= end - begin
            if begin:
                return runs, False
    return runs, True


def _records(snapshot: OpenSnapshot, runs: Sequence[_Run]) -> Iterator[Record]:
    lists = _ascending(snapshot)
    number = (
        bisect_left(lists, runs[0][0].firsts[0], key=lambda segments: segments.firsts[0])
        if runs
        else 0
    )
    for segments, places in runs:
        for at in reversed(places):
            first = segments.firsts[at]
            yield (
                first,
                segments.lasts[at],
                segments.ids[at],
                segments.previous[at] or _id_before(lists, number, at, first),
                segments.versions[at],
                segments.chains[at],
            )
        number -= 1


def _id_before(lists: Sequence[SegmentList], number: int, at: int, first: int) -> str:
    """The id of the segment that ends just before a block; empty where there is none."""
    if not at:
        if not number:
            return ""
        number, at = number - 1, len(lists[number - 1])
    segments = lists[number]
    return segments.ids[at - 1] if segments.lasts[at - 1] == first - 1 else ""
