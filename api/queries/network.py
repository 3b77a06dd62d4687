"""What is known of the network, its segments and time (decisions 10, 11)."""

from __future__ import annotations

from bisect import bisect_right
from operator import methodcaller

import pyarrow as pa

from api.core.api_errors import FailedError, Reason
from api.core.descriptors import Request, given
from api.core.open_snapshots import OpenSnapshot, Reading
from api.core.workers import Headers
from api.queries.pagination import Record
from transforms.warehouse.manifests.manifest_rows import SEGMENTS

_COLUMNS = ["first_block", "last_block", "segment_id", "previous_id", "schema_version", "chain_id"]
_value = methodcaller("as_py")

MOST_SEGMENTS = 10_000
"""The most in one answer: as many as go into a message that gRPC's clients take (4 MiB)."""


def segments_page(reading: Reading, request: Request) -> Record:
    """The newest of the segments that are asked for, newest first; no query."""
    return (_records(reading.snapshot, _places(reading.snapshot, request)),)


def newest_segment(reading: Reading, _request: Request) -> Record:
    """The newest segment with its chain; None and no chain where there is none."""
    snapshot = reading.snapshot
    for segment in _records(snapshot, range(len(_segments(snapshot)))[-1:]):
        return segment, snapshot.catalog.snapshot.chain_id
    return None, ""


def next_headers(reading: Reading, request: Request) -> Headers:
    """The header that says with which `to_block` the segments go on after a page, if they do."""
    snapshot = reading.snapshot
    start = _places(snapshot, request).start
    if not start:
        return ()
    return (("x-next-to-block", str(_segments(snapshot)["first_block"][start].as_py() - 1)),)


def history_status(reading: Reading, _request: Request) -> Record:
    """Address, key, chain and peers of the peer-to-peer store, of which only the chain is here."""
    return "", "", reading.snapshot.catalog.snapshot.chain_id, ()


def vega_time(reading: Reading, _request: Request) -> Record:
    """The time of the newest loaded block. Raises `FailedError` where there is none."""
    if reading.snapshot.newest is None:
        raise FailedError(Reason.LAST_BLOCK, "no block is loaded")
    return (reading.snapshot.newest.time,)


def _segments(snapshot: OpenSnapshot) -> pa.Table:
    """The columns of all segments that answers have, in their order."""
    return snapshot.once(
        "segments",
        lambda opened: pa.concat_tables(
            [SEGMENTS.empty_table(), *opened.catalog.segment_rows()]
        ).select(_COLUMNS),
    )


def _places(snapshot: OpenSnapshot, request: Request) -> range:
    """Where the segments of a page are, ascending."""
    lasts, to_block = _segments(snapshot)["last_block"], given(request).get("to_block")
    end = len(lasts) if to_block is None else bisect_right(lasts, to_block, key=_value)
    return range(max(0, end - MOST_SEGMENTS), end)


def _records(snapshot: OpenSnapshot, places: range) -> list[Record]:
    """The segments at these places, newest first; who names none follows the one just before."""
    start = max(0, places.start - 1)
    columns = _segments(snapshot).slice(start, places.stop - start).columns
    records: list[Record] = []
    last_before, id_before = -1, ""
    for first, last, own, named, *rest in zip(*(c.to_pylist() for c in columns), strict=True):
        previous = named or (id_before if first == last_before + 1 else "")
        records.append((first, last, own, previous, *rest))
        last_before, id_before = last, own
    return records[places.start - start :][::-1]
