"""Withdrawals (spec 4.7; decision 20): of each withdrawal of a party the row written last."""

from __future__ import annotations

from operator import itemgetter

from api.core.api_errors import InvalidArgumentError, NotFoundError, Reason
from api.core.snapshots import Reading
from api.queries.cursors import ID, TIME, CursorFormat, IdError, parse_id, parse_key
from api.queries.pagination import Page, Record, cut, page
from api.queries.records import withdrawal
from api.queries.requests import GetWithdrawal, ListWithdrawals
from api.queries.withdrawal_rows import Period, current_withdrawals, withdrawals_with_id

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID), ("partyId", ID), extra=1)


def list_withdrawals(reading: Reading, request: ListWithdrawals) -> Page:
    """List the withdrawals of a party or of all. Raises `InvalidArgumentError`."""
    party = _party(request.party_id)
    window = request.pagination.window(_CURSORS)
    section = cut(current_withdrawals(reading, party, _period(request)), window)
    return page(section, section.cursors(_CURSORS), withdrawal)


def get_withdrawal(reading: Reading, request: GetWithdrawal) -> Record:
    """One withdrawal as it is now. Raises `InvalidArgumentError`, `NotFoundError`."""
    if not request.id:
        raise InvalidArgumentError(Reason.MISSING_WITHDRAWAL_ID)
    try:
        id_ = parse_key(request.id)
    except IdError:
        raise InvalidArgumentError(Reason.INVALID_WITHDRAWAL_ID) from None
    rows = withdrawals_with_id(reading, id_)
    if not rows:
        raise NotFoundError(Reason.WITHDRAWAL, "no resource corresponding to this id")
    return withdrawal(sorted(rows, key=itemgetter(0, 2))[-1])  # of equals the newest


def _party(text: str) -> str:
    if not text:
        return ""
    try:
        return parse_id(text) if text == "network" else parse_key(text)
    except IdError:
        raise InvalidArgumentError(Reason.INVALID_PARTY_ID) from None


def _period(request: ListWithdrawals) -> Period:
    start, end = request.date_range.start_timestamp, request.date_range.end_timestamp
    if start is not None and end is not None and start > end:
        raise InvalidArgumentError(
            Reason.INVALID_DATE_RANGE, f"it starts at {start}, after its end at {end}"
        )
    return Period(*(None if nanos is None else nanos // 1000 for nanos in (start, end)))
