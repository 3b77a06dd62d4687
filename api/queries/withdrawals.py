"""Withdrawals (spec 4.7; decision 20): of each withdrawal of a party the row written last.

The rows lie in many volumes; a few withdrawals are in two of them, of which the newest counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from operator import itemgetter

from api.core.api_errors import InvalidArgumentError, NotFoundError, Reason
from api.core.relations import HeldTable, answered_around
from api.core.snapshots import Reading, Snapshot
from api.queries.cursors import ID, TIME, CursorFormat, IdError, Values, parse_id, parse_key
from api.queries.pagination import Listing, Page, QueryListing, Record, Relation, Row, cut, page
from api.queries.records import withdrawal
from api.queries.requests import GetWithdrawal, ListWithdrawals
from api.queries.span_listing import ListingSource, SpanListing, TimeSpan, spans_of
from transforms.block_range import BlockRange
from transforms.lookups.lookup_tables import (
    BY_ID,
    BY_PARTY,
    BY_TIME,
    Identities,
    halves_sql,
    identities_of,
    identities_sql,
    latest_sql,
    times_of,
)
from transforms.lookups.repeated import repeated
from transforms.lookups.row_columns import WITHDRAWAL
from transforms.sessions import Time, Value

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID), ("partyId", ID), extra=1)
_TIME, _ID, _PARTY = 0, 1, 2
_KEYS = ("vega_time", "id", "party_id")
_WRITTEN_AGAIN = "withdrawals written again"
# Fetched beyond a page, since a few withdrawals are in two volumes.
_SPARE_ROWS = 16
_key = itemgetter(_TIME, _ID, _PARTY)


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


@dataclass(frozen=True, slots=True)
class Period:
    """The times that are asked for, in microseconds: from `start` on, before `end`."""

    start: int | None = None
    end: int | None = None

    @property
    def filters(self) -> str:
        """SQL over rows, in which `bounds` are bound to `$1`, ...; empty for all rows."""
        operators = [
            than for than, time in ((">=", self.start), ("<", self.end)) if time is not None
        ]
        return " and ".join(f"vega_time {than} ${at}" for at, than in enumerate(operators, 1))

    @property
    def bounds(self) -> tuple[Time, ...]:
        """What `filters` binds."""
        return tuple(Time(time) for time in (self.start, self.end) if time is not None)


def current_withdrawals(reading: Reading, party: str, period: Period) -> Listing:
    """The withdrawals of a party, or of all for an empty one, ascending by time, id and party.

    A row has the columns of `WITHDRAWAL`.
    """
    source = ListingSource(
        pages=BY_PARTY if party else BY_TIME,
        prefix=(party,) if party else (),
        key=itemgetter(_PARTY, _TIME, _ID) if party else _key,
        order=_key,
        table=lambda table: _table_listing(reading, table, party, period),
    )
    listing = SpanListing(reading, _spans(reading), source, period.start, period.end)
    again = written_again(reading)
    return _CurrentListing(listing, again) if again else listing


def withdrawals_with_id(reading: Reading, id_: str) -> list[Row]:
    """The last row in each volume of the withdrawals with an id, ascending by volume."""
    return answered_around(lambda: _rows_with_id(reading, id_))


def _rows_with_id(reading: Reading, id_: str) -> list[Row]:
    matches: list[tuple[int, Row]] = []
    queries: list[str] = []
    for table in reading.snapshot.history("withdrawals"):
        lookups, first = table.lookups, table.blocks.first
        if lookups is None:
            columns, rows = WITHDRAWAL.direct(table.columns), latest_sql(table.source)
            queries.append(f"(select {columns}, {first} from ({rows}) where id = $1)")  # noqa: S608
        else:
            pages = lookups.pages(BY_ID, (id_,), (id_,), descending=True)
            matches += ((first, tuple(row)) for rows in pages for row in rows if row[_ID] == id_)
    if queries:
        matches += ((row[-1], row[:-1]) for row in reading.rows(" union all ".join(queries), [id_]))
    return [row for _, row in sorted(matches, key=itemgetter(0))]


def prepare(reading: Reading, before: Snapshot | None) -> None:
    """Find what all listings of a generation need; see `written_again`."""
    _spans(reading)
    written_again(reading, before)


def written_again(reading: Reading, before: Snapshot | None = None) -> Mapping[bytes, int]:
    """The withdrawals that more than one volume has, each with its last time in microseconds.

    Found once per generation; with the one `before`, only what it did not have is looked for.
    """
    return reading.snapshot.once(
        _WRITTEN_AGAIN,
        lambda snapshot: answered_around(lambda: _written_again(reading, snapshot, before)),
    )


def _spans(reading: Reading) -> Sequence[TimeSpan]:
    return reading.snapshot.once(
        "withdrawals by time",
        lambda snapshot: answered_around(
            lambda: spans_of(
                (table, _times(reading, table)) for table in snapshot.history("withdrawals")
            )
        ),
    )


def _times(reading: Reading, table: HeldTable) -> tuple[int, int] | None:
    if table.lookups is not None:
        return times_of(table.lookups, "withdrawals")
    rows = identities_sql(f"({latest_sql(table.source)})")
    ((first, last),) = reading.rows(f"select min(written), max(written) from ({rows})")  # noqa: S608
    return None if first is None else (first, last)


def _table_listing(reading: Reading, table: HeldTable, party: str, period: Period) -> Listing:
    """The rows of a volume that has no lookups."""
    filters = period.filters
    bound: tuple[Value, ...] = period.bounds
    conditions = [filters] if filters else []
    if party:
        conditions.append(f"party_id = ${len(bound) + 1}")
        bound = (*bound, party)
    rows = latest_sql(table.source)
    sql = (
        f"select {WITHDRAWAL.inner(table.columns)} from ({rows}) "  # noqa: S608 - ours
        f"where {' and '.join(conditions) or 'true'}"
    )
    return QueryListing(reading, Relation(sql, _KEYS, WITHDRAWAL.shown, len(bound)), bound)


@dataclass(frozen=True, slots=True)
class _CurrentListing:
    """The rows of all volumes without those that a newer volume has written again."""

    listing: Listing
    written_again: Mapping[bytes, int]

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        results: list[Row] = []
        size = limit + _SPARE_ROWS
        while True:
            rows = self.listing.rows(start, size, descending=descending)
            tail = results[-1:]
            results += [row for row in rows if self._is_last(row) and row not in tail]
            if len(results) >= limit or len(rows) < size:
                return results[:limit]
            start, size = _key(rows[-1]), 2 * size

    def _is_last(self, row: Row) -> bool:
        last = self.written_again.get(_identity(row))
        return last is None or bool(row[_TIME] >= last)


def _identity(row: Row) -> bytes:
    """As `transforms.lookups.lookup_tables.IDENTITY`."""
    return md5(f"{row[_ID]} {row[_PARTY]}".encode(), usedforsecurity=False).digest()


def _written_again(
    reading: Reading, snapshot: Snapshot, before: Snapshot | None
) -> Mapping[bytes, int]:
    tables = snapshot.history("withdrawals")
    tables_by_key = {table.volume: table for table in tables}
    past = _past(before)
    past_times, fresh = _known(tables_by_key, past)
    if len(tables) < 2 or not fresh:
        return past_times  # with what was found of volumes that are one by now, which is still true
    identities = {key: _identities(reading, table) for key, table in tables_by_key.items()}
    times = repeated([*identities.values()], [identities[key] for key in fresh])
    return {**past_times, **times}


@dataclass(frozen=True, slots=True)
class _Past:
    """What was found of another generation, with its volumes and their blocks."""

    volumes: Mapping[str, BlockRange]
    again: Mapping[bytes, int]


def _past(before: Snapshot | None) -> _Past | None:
    times = None if before is None else before.made(_WRITTEN_AGAIN)
    if before is None or times is None:
        return None
    volumes = {table.volume: table.blocks for table in before.history("withdrawals")}
    return _Past(volumes, times)


def _known(
    tables: Mapping[str, HeldTable], past: _Past | None
) -> tuple[Mapping[bytes, int], Sequence[str]]:
    """What was found before, and the volumes of which it was not.

    Nothing is known where one of its volumes is gone whose blocks are not in a newer one.
    """
    if past is None:
        return {}, [*tables]
    fresh = [key for key in tables if key not in past.volumes]
    for key, blocks in past.volumes.items():
        if key not in tables and not any(
            tables[new].blocks.first <= blocks.first and blocks.last <= tables[new].blocks.last
            for new in fresh
        ):
            return {}, [*tables]
    return past.again, fresh


def _identities(reading: Reading, table: HeldTable) -> Identities:
    if table.lookups is not None:
        return identities_of(table.lookups)
    rows = reading.rows(halves_sql(f"({latest_sql(table.source)})"))
    highs, lows, written = zip(*rows, strict=True) if rows else ((), (), ())
    return Identities(array("Q", highs), array("Q", lows), array("q", written))
