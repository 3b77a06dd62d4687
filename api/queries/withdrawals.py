"""Withdrawals (spec 4.7; decision 20): of each withdrawal of a party the row written last.

The rows lie in many volumes; a few withdrawals are in two of them, of which the newest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from operator import itemgetter

from api.core.api_errors import InvalidArgumentError, NotFoundError, Reason
from api.core.descriptors import Request, given
from api.core.open_snapshots import Reading
from api.queries.cursors import ID, TIME, CursorFormat, asked_id, parse_id, parse_key
from api.queries.latest_rows import LatestSource, latest, written_again
from api.queries.pagination import (
    Listing,
    Page,
    Record,
    Row,
    cut,
    page,
    window_of,
)
from api.queries.records import withdrawal
from api.queries.span_listing import SpanListing, TimeSpan, known_spans
from transforms.lookups.lookup_tables import BY_ID, BY_PARTY, BY_TIME

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID), ("partyId", ID), extra=1)
_TIME, _ID, _PARTY = 0, 1, 2
_key = itemgetter(_TIME, _ID, _PARTY)


def list_withdrawals(reading: Reading, request: Request) -> Page:
    """List the withdrawals of a party or of all. Raises `InvalidArgumentError`."""
    party = _party(request.party_id)
    window = window_of(request, _CURSORS)
    section = cut(current_withdrawals(reading, party, *_period(request)), window)
    return page(section, section.cursors(_CURSORS), withdrawal)


def get_withdrawal(reading: Reading, request: Request) -> Record:
    """One withdrawal as it is now. Raises `InvalidArgumentError`, `NotFoundError`."""
    if not request.id:
        raise InvalidArgumentError(Reason.MISSING_WITHDRAWAL_ID)
    id_ = asked_id(request.id, Reason.INVALID_WITHDRAWAL_ID, parse=parse_key)
    rows = _rows_with_id(reading, id_)
    if not rows:
        raise NotFoundError(Reason.WITHDRAWAL, "no resource corresponding to this id")
    return (withdrawal(sorted(rows, key=itemgetter(0, 2))[-1]),)  # of equals the newest


def _party(text: str) -> str:
    if not text:
        return ""
    parse = parse_id if text == "network" else parse_key
    return asked_id(text, Reason.INVALID_PARTY_ID, parse=parse)


def _period(request: Request) -> tuple[int | None, int | None]:
    """The times that are asked for, in microseconds: from the first on, before the second."""
    times = given(request.date_range)
    start, end = times.get("start_timestamp"), times.get("end_timestamp")
    if start is not None and end is not None and start > end:
        raise InvalidArgumentError(
            Reason.INVALID_DATE_RANGE, f"it starts at {start}, after its end at {end}"
        )
    return start and start // 1000, end and end // 1000


def current_withdrawals(
    reading: Reading, party: str, start: int | None, end: int | None
) -> Listing:
    """The withdrawals of a party, or of all for an empty one, ascending by time, id and party.

    A row has the columns of `WITHDRAWAL`. `start` and `end` are as `_period` has them.
    """
    listing = SpanListing(
        reading,
        _spans(reading),
        pages=BY_PARTY if party else BY_TIME,
        prefix=(party,) if party else (),
        key=itemgetter(_PARTY, _TIME, _ID, _PARTY) if party else _key,
        order=_key,
        start=start,
        end=end,
    )
    return latest(reading, LATEST, listing)


def _rows_with_id(reading: Reading, id_: str) -> list[Row]:
    """The last row in each volume of the withdrawals with an id, ascending by volume."""
    rows: list[Row] = []
    for table in reading.snapshot.history("withdrawals"):
        reading.check_interrupt()
        lookups = table.lookups
        if lookups.may_have(BY_ID, id_):
            rows += lookups.rows(BY_ID, id_, _ID)
    return rows


def prepare(reading: Reading) -> None:
    """Find what all listings of a snapshot need; see `written_again`."""
    written_again(reading, LATEST)
    _spans(reading)  # from facts that are read by now: hundreds of files are not opened twice


def _spans(reading: Reading) -> Sequence[TimeSpan]:
    return known_spans(reading, reading.snapshot.history("withdrawals"))


def _identity(row: Row) -> bytes:
    """As `transforms.lookups.lookup_tables.IDENTITY`."""
    return md5(f"{row[_ID]} {row[_PARTY]}".encode(), usedforsecurity=False).digest()


LATEST = LatestSource(
    "withdrawals",
    tables=lambda snapshot: snapshot.history("withdrawals"),
    identity=_identity,
    key=_key,
)
"""The withdrawals, of which a few are in several volumes."""
