"""Withdrawals (spec 4.7; decision 20): of each withdrawal of a party the row written last."""

from __future__ import annotations

from api.cursors import ID, TIME, CursorFormat
from api.errors import InvalidArgumentError, NotFoundError, Reason
from api.ids import IdError, parse_id, parse_key
from api.listings import QueryListing, Relation
from api.pagination import Page, Record, cut, page
from api.records import WITHDRAWALS, withdrawal
from api.relations import HeldTable, union
from api.requests import GetWithdrawal, ListWithdrawals
from api.snapshots import Reading, Snapshot
from transforms.serving import Time, Value

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID), ("partyId", ID), extra=1)
_KEYS = ("vega_time", "id", "party_id")
_LAST = "row_number() over (partition by id, party_id order by vega_time desc) = 1"


def list_withdrawals(reading: Reading, request: ListWithdrawals) -> Page:
    """List the withdrawals of a party or of all. Raises `InvalidArgumentError`."""
    party = _party(request.party_id)
    window = request.pagination.window(_CURSORS)
    bounds, filters = _date_range(request)
    values: list[Value] = [*bounds]
    if party:
        values.append(party)
    name = f"withdrawals {filters} {bool(party)}"
    relation = reading.snapshot.once(name, lambda held: _relation(held, filters, bool(party)))
    found = cut(QueryListing(reading, relation, tuple(values)), window)
    return page(found, found.cursors(_CURSORS), withdrawal)


def get_withdrawal(reading: Reading, request: GetWithdrawal) -> Record:
    """One withdrawal as it is now. Raises `InvalidArgumentError`, `NotFoundError`."""
    if not request.id:
        raise InvalidArgumentError(Reason.MISSING_WITHDRAWAL_ID)
    try:
        id_ = parse_key(request.id)
    except IdError:
        raise InvalidArgumentError(Reason.INVALID_WITHDRAWAL_ID) from None
    for row in reading.rows(reading.snapshot.once("withdrawal", _one_sql), [id_]):
        return withdrawal(row)
    raise NotFoundError(Reason.WITHDRAWAL, "no resource corresponding to this id")


def _party(text: str) -> str:
    if not text:
        return ""
    try:
        return parse_id(text) if text == "network" else parse_key(text)
    except IdError:
        raise InvalidArgumentError(Reason.INVALID_PARTY_ID) from None


def _date_range(request: ListWithdrawals) -> tuple[list[Time], str]:
    """The bounds to bind, and the SQL that they are bound in: from `start` on, before `end`."""
    start, end = request.start, request.end
    if start is not None and end is not None and start > end:
        raise InvalidArgumentError(
            Reason.INVALID_DATE_RANGE, f"it starts at {start}, after its end at {end}"
        )
    bounds: list[Time] = []
    filters: list[str] = []
    for than, nanos in ((">=", start), ("<", end)):
        if nanos is not None:
            bounds.append(Time(nanos // 1000))
            filters.append(f"vega_time {than} ${len(bounds)}")
    return bounds, " and ".join(filters)


def _relation(snapshot: Snapshot, filters: str, of_party: bool) -> Relation:
    bound = filters.count("$") + of_party
    wanted = f"party_id = ${bound}" if of_party else "true"
    rows = union(snapshot.history("withdrawals"), lambda table: _rows_sql(table, wanted))
    last = f"select * from ({rows}) qualify {_LAST}"  # noqa: S608 - ours
    sql = f"select * from ({last}) where {filters}" if filters else last  # noqa: S608 - ours
    return Relation(sql, _KEYS, WITHDRAWALS.shown, bound)


def _rows_sql(table: HeldTable, wanted: str) -> str:
    return f"select {WITHDRAWALS.inner(table)} from {table.source} where {wanted}"  # noqa: S608


def _one_sql(snapshot: Snapshot) -> str:
    rows = union(snapshot.history("withdrawals"), lambda table: _rows_sql(table, "id = $1"))
    return (
        f"select {WITHDRAWALS.shown} from ({rows}) "  # noqa: S608 - ours
        "order by vega_time desc, party_id desc limit 1"
    )
