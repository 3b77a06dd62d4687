"""Withdrawals (spec 4.7; decision 20): of each withdrawal of a party the row written last."""

from __future__ import annotations

from api.core.errors import InvalidArgumentError, NotFoundError, Reason
from api.core.relations import union
from api.core.snapshots import Reading, Snapshot
from api.queries.cursors import ID, TIME, CursorFormat
from api.queries.ids import IdError, parse_id, parse_key
from api.queries.pagination import Page, Record, cut, page
from api.queries.records import WITHDRAWALS, withdrawal
from api.queries.requests import GetWithdrawal, ListWithdrawals
from api.queries.withdrawal_rows import Period, current_withdrawals
from transforms.lookups.lookup_tables import WITHDRAWALS_LATEST

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID), ("partyId", ID), extra=1)


def list_withdrawals(reading: Reading, request: ListWithdrawals) -> Page:
    """List the withdrawals of a party or of all. Raises `InvalidArgumentError`."""
    party = _party(request.party_id)
    window = request.pagination.window(_CURSORS)
    found = cut(current_withdrawals(reading, party, _period(request)), window)
    return page(found, found.cursors(_CURSORS), lambda row: withdrawal(row[:-1]))


def get_withdrawal(reading: Reading, request: GetWithdrawal) -> Record:
    """One withdrawal as it is now. Raises `InvalidArgumentError`, `NotFoundError`."""
    if not request.id:
        raise InvalidArgumentError(Reason.MISSING_WITHDRAWAL_ID)
    try:
        id_ = parse_key(request.id)
    except IdError:
        raise InvalidArgumentError(Reason.INVALID_WITHDRAWAL_ID) from None
    sql = reading.snapshot.once("withdrawal", _one_sql)
    for row in reading.rows(sql, [id_]) if sql else ():
        return withdrawal(row)
    raise NotFoundError(Reason.WITHDRAWAL, "no resource corresponding to this id")


def _party(text: str) -> str:
    if not text:
        return ""
    try:
        return parse_id(text) if text == "network" else parse_key(text)
    except IdError:
        raise InvalidArgumentError(Reason.INVALID_PARTY_ID) from None


def _period(request: ListWithdrawals) -> Period:
    start, end = request.start, request.end
    if start is not None and end is not None and start > end:
        raise InvalidArgumentError(
            Reason.INVALID_DATE_RANGE, f"it starts at {start}, after its end at {end}"
        )
    return Period(*(None if nanos is None else nanos // 1000 for nanos in (start, end)))


def _one_sql(snapshot: Snapshot) -> str | None:
    tables = snapshot.history("withdrawals")
    if not tables:
        return None
    rows = union(
        tables,
        lambda table: (
            f"select {WITHDRAWALS.inner(table)} from {table.lookup(WITHDRAWALS_LATEST)} "  # noqa: S608 - ours
            "where id = $1"
        ),
    )
    return (
        f"select {WITHDRAWALS.shown} from ({rows}) "  # noqa: S608 - ours
        "order by vega_time desc, party_id desc limit 1"
    )
