"""Liquidity provisions: the list, and what the stream of them says (spec 4.4; decisions 11, 24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.descriptors import Request, given
from api.core.open_snapshots import OpenSnapshot, Reading
from api.core.relations import HeldTable
from api.queries.cursors import ID, TIME, CursorFormat, asked_id, show_id
from api.queries.pagination import (
    Listing,
    MemoryListing,
    Page,
    Record,
    cut,
    page,
    window_of,
)
from api.queries.records import liquidity_provision
from api.queries.span_listing import SpanListing, known_spans
from transforms.coverage import union
from transforms.lookups.lookup_tables import (
    LISTED_PROVISIONS,
    PROVISIONS_BY_MARKET,
    PROVISIONS_BY_PARTY,
)
from transforms.lookups.row_columns import PROVISION
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.shapes import Volume

BATCH = 50
"""The most provisions in one message of the stream."""

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID))
_LAST = "row_number() over (partition by id order by vega_time desc, _segment desc, _row desc) = 1"
_NEWEST = "row_number() over (partition by vega_time, id order by _segment desc, _row desc) = 1"
_NO_SEGMENT = -1
# Of a record.
_PARTY, _MARKET = 1, 4
_TABLE = "liquidity_provisions"
# Of a row.
_TIME, _ID = 0, 1
_key = itemgetter(_TIME, _ID)
_PLACES = {"party_id": 2, "market_id": 5, "reference": 12}


def list_liquidity_provisions(reading: Reading, request: Request) -> Page:
    """List every row of a market's or a party's provisions, or the live ones only.

    Raises `InvalidArgumentError`, also without a market and a party.
    """
    window = window_of(request, _CURSORS)
    filters = _filters(request)
    if not filters.keys() & {"market_id", "party_id"}:
        raise InvalidArgumentError(
            Reason.LIQUIDITY_PROVISIONS, _inner(request, "market or party filters are required")
        )
    listing = _live(reading, filters) if request.live else _of_history(reading, filters)
    if listing is None:
        return Page()
    section = cut(listing, window)
    return page(section, section.cursors(_CURSORS), liquidity_provision)


@dataclass(frozen=True, slots=True)
class ProvisionFilter:
    """Which provisions a stream is about: ids as records show them; None: any.

    With `snapshot` those that are there come first.
    """

    market_id: str | None = None
    party_id: str | None = None
    snapshot: bool = True

    @classmethod
    def of(cls, request: Request) -> ProvisionFilter:
        """Read the filter of a request. Raises `InvalidArgumentError` for what is no id."""
        filters = given(request)
        market, party = (_wanted(filters.get(name)) for name in ("market_id", "party_id"))
        return cls(market, party, filters.get("snapshot", True))

    def matches(self, provision: Record) -> bool:
        """Whether a record is one that the stream is about."""
        return self.market_id in (None, provision[_MARKET]) and self.party_id in (
            None,
            provision[_PARTY],
        )


def current_provisions(reading: Reading) -> list[Record]:
    """Of every provision the row written last, oldest first."""
    rows = _all_rows(reading.snapshot)
    return _read(reading, f"select * from ({rows}) qualify {_LAST}") if rows else []  # noqa: S608


def changed_provisions(reading: Reading, before: Sequence[Volume]) -> list[Record]:
    """Every state of a provision that is newer than its rows of the volumes `before`, in order.

    These are the volumes of history of the snapshot that a stream has sent; none: everything is
    new. Asked once per snapshot and filtered per reader with `ProvisionFilter.matches`.
    """
    fresh = _fresh_segments(reading.snapshot.catalog, before)
    if not fresh:
        return []
    rows, is_fresh = _all_rows(reading.snapshot), _fresh(reading.snapshot, before, fresh)
    if rows is None:
        return []
    # An older one would say after a newer state what it was before that.
    known = f"max(vega_time) filter (not ({is_fresh})) over (partition by id)"
    states = f"select *, {known} as known from (from ({rows}) qualify {_NEWEST})"  # noqa: S608 - ours
    newer = "known is null or vega_time > known"
    return _read(reading, f"select * from ({states}) where ({is_fresh}) and ({newer})")  # noqa: S608


def _wanted(text: str | None) -> str | None:
    return None if text is None else show_id(asked_id(text, Reason.LIQUIDITY_PROVISIONS, ""))


def _filters(request: Request) -> dict[str, str]:
    """The columns that are asked for, with their values."""
    about = _inner(request, "")
    filters = {
        column: asked_id(text, Reason.LIQUIDITY_PROVISIONS, about)
        for column, text in (("market_id", request.market_id), ("party_id", request.party_id))
        if text
    }
    if request.reference:
        filters["reference"] = request.reference
    return filters


def _inner(request: Request, why: str) -> str:
    return (
        f"partyID: {request.party_id}, marketID: {request.market_id}, "
        f"reference: {request.reference}: {why}"
    )


def _live(reading: Reading, filters: Mapping[str, str]) -> Listing | None:
    """The provisions of the newest current state, of which there are few."""
    table = reading.snapshot.state("live_liquidity_provisions")
    if table is None:
        return None
    condition = " and ".join(f"{column} = ${i}" for i, column in enumerate(filters, start=1))
    rows = (
        f"select * from ({_rows_sql(table, ', _segment, _row')}) "  # noqa: S608 - ours
        f"where {LISTED_PROVISIONS} and {condition} qualify {_NEWEST}"
    )
    return MemoryListing(reading.rows(_ordered(rows), [*filters.values()]), _key)


def _of_history(reading: Reading, filters: Mapping[str, str]) -> Listing:
    """The rows of all volumes; by party if that is given, as it has fewer than a market."""
    first = "party_id" if "party_id" in filters else "market_id"
    others = [(_PLACES[name], value) for name, value in filters.items() if name != first]
    return SpanListing(
        reading,
        known_spans(reading, reading.snapshot.history(_TABLE)),
        pages=PROVISIONS_BY_PARTY if first == "party_id" else PROVISIONS_BY_MARKET,
        prefix=(filters[first],),
        key=itemgetter(_PLACES[first], _TIME, _ID),
        order=_key,
        predicate=lambda row: all(row[place] == value for place, value in others),
    )


def _rows_sql(table: HeldTable, more: str = "") -> str:
    columns = PROVISION.inner(table.columns)
    return f"select {columns}{more} from {table.source}"  # noqa: S608 - ours


def _fresh_segments(catalog: Catalog, before: Sequence[Volume]) -> list[int]:
    """The first blocks of the segments that were not there before; only new volumes are read."""
    keys = {volume.key for volume in before}
    runs = union(volume.blocks for volume in before)
    return [
        segment.blocks.first
        for volume in catalog.snapshot.history
        if volume.key not in keys
        for segment in catalog.segments(volume.blocks)
        if not any(run.holds(segment.blocks) for run in runs)
    ]


def _fresh(snapshot: OpenSnapshot, before: Sequence[Volume], fresh: Sequence[int]) -> str:
    """SQL that finds rows from outside of some segments: other segments', or state's from later."""
    last = before[-1].blocks.last if before else -1
    tables = [table for table in snapshot.history("blocks") if table.blocks.first <= last]
    if not tables:
        return "true"
    then = f"select max(vega_time) from {tables[-1].source} where height <= {last}"  # noqa: S608
    later = f"_segment = {_NO_SEGMENT} and vega_time > ({then})"
    return f"_segment in ({', '.join(map(str, fresh))}) or ({later})"


def _read(reading: Reading, rows: str) -> list[Record]:
    """The provisions in the rows of a statement, oldest first."""
    return [liquidity_provision(row) for row in reading.rows(_ordered(rows))]


def _ordered(rows: str) -> str:
    return f"select {PROVISION.shown} from ({rows}) order by vega_time, id"  # noqa: S608 - ours


def _all_rows(snapshot: OpenSnapshot) -> str | None:
    """SQL for all rows; what was provided before the first segment is in the current state only."""
    rows = [
        _rows_sql(table, ", _segment, _row") for table in snapshot.history("liquidity_provisions")
    ]
    live = snapshot.state("live_liquidity_provisions")
    if live:
        rows.append(_rows_sql(live, f", {_NO_SEGMENT}, _row"))
    return " union all ".join(rows) or None
