"""Liquidity provisions: the list, and what the stream of them says (spec 4.4; decisions 11, 24)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from api.core.errors import FailedError, InvalidArgumentError, Reason
from api.core.relations import HeldTable, union
from api.core.snapshots import Reading, Snapshot
from api.queries.cursors import ID, TIME, CursorFormat
from api.queries.ids import IdError, parse_id, show_id
from api.queries.listings import QueryListing, Relation
from api.queries.pagination import Page, Record, cut, page
from api.queries.records import LIQUIDITY_PROVISIONS, liquidity_provision
from api.queries.requests import ListLiquidityProvisions, ObserveLiquidityProvisions
from transforms.blocks import BlockRange

BATCH = 50
"""The most provisions in one message of the stream."""

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID))
_LAST = "row_number() over (partition by id order by vega_time desc, _segment desc) = 1"
_NO_SEGMENT = -1
_PARTY, _MARKET = 1, 4


def list_liquidity_provisions(reading: Reading, request: ListLiquidityProvisions) -> Page:
    """List every row of a market's or a party's provisions, or the live ones only.

    Raises `InvalidArgumentError`, and `FailedError` without a market and a party.
    """
    window = request.pagination.window(_CURSORS)
    filters = _filters(request)
    if not filters.keys() & {"market_id", "party_id"}:
        raise FailedError(
            Reason.LIQUIDITY_PROVISIONS, _inner(request, "market or party filters are required")
        )
    name = f"liquidity provisions {' '.join(filters)} {request.live}"
    relation = reading.snapshot.once(name, lambda held: _relation(held, [*filters], request.live))
    if relation is None:
        return Page()
    found = cut(QueryListing(reading, relation, tuple(filters.values())), window)
    return page(found, found.cursors(_CURSORS), liquidity_provision)


@dataclass(frozen=True, slots=True)
class ProvisionFilter:
    """Which provisions a stream is about: ids as records show them; None: any."""

    market_id: str | None = None
    party_id: str | None = None

    @classmethod
    def of(cls, request: ObserveLiquidityProvisions) -> ProvisionFilter:
        """Read the filter of a request. Raises `InvalidArgumentError` for what is no id."""
        return cls(_wanted(request.market_id), _wanted(request.party_id))

    def matches(self, provision: Record) -> bool:
        """Whether a record is one that the stream is about."""
        return self.market_id in (None, provision[_MARKET]) and self.party_id in (
            None,
            provision[_PARTY],
        )


def current_provisions(reading: Reading, wanted: ProvisionFilter) -> Iterator[list[Record]]:
    """Of every matching provision the row written last, oldest first, in batches of `BATCH`.

    Memory is bounded by a batch; the reading is in use until the end.
    """
    sql = reading.snapshot.once("current provisions", lambda held: _current_sql(held, "true"))
    batch: list[Record] = []
    for rows in reading.batches(sql, (), BATCH) if sql else ():
        for row in rows:
            record = liquidity_provision(row)
            if wanted.matches(record):
                batch.append(record)
        while len(batch) >= BATCH:
            yield batch[:BATCH]
            batch = batch[BATCH:]
    if batch:
        yield batch


def changed_provisions(reading: Reading, before: Collection[BlockRange]) -> list[Record]:
    """The provisions whose last row is not from the segments `before`, oldest first.

    These are the segments of the snapshot that a stream has sent; none: everything is new. Asked
    once per generation and filtered per reader with `ProvisionFilter.matches`.
    """
    if all(blocks in before for blocks in reading.snapshot.catalog.segments):
        return []
    sql = _current_sql(reading.snapshot, _fresh(reading.snapshot, before))
    return [liquidity_provision(row) for row in (reading.rows(sql) if sql else ())]


def _wanted(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return show_id(parse_id(text))
    except IdError as error:
        raise InvalidArgumentError(Reason.LIQUIDITY_PROVISIONS, str(error)) from None


def _filters(request: ListLiquidityProvisions) -> dict[str, str]:
    """The columns that are asked for, with their values."""
    filters: dict[str, str] = {}
    try:
        for column, text in (("market_id", request.market_id), ("party_id", request.party_id)):
            if text:
                filters[column] = parse_id(text)
    except IdError as error:
        raise InvalidArgumentError(
            Reason.LIQUIDITY_PROVISIONS, _inner(request, str(error))
        ) from None
    if request.reference:
        filters["reference"] = request.reference
    return filters


def _inner(request: ListLiquidityProvisions, why: str) -> str:
    return (
        f"partyID: {request.party_id}, marketID: {request.market_id}, "
        f"reference: {request.reference}: {why}"
    )


def _relation(snapshot: Snapshot, filters: Sequence[str], live: bool) -> Relation | None:
    tables = snapshot.history("liquidity_provisions")
    if live:
        held = snapshot.state("live_liquidity_provisions")
        tables = [held] if held else []
    if not tables:
        return None
    wanted = " and ".join(f"{column} = ${i}" for i, column in enumerate(filters, start=1))
    rows = union(tables, lambda table: f"{_rows_sql(table)} where {wanted}")
    return Relation(rows, ("vega_time", "id"), LIQUIDITY_PROVISIONS.shown, len(filters))


def _rows_sql(table: HeldTable, more: str = "") -> str:
    columns = LIQUIDITY_PROVISIONS.inner(table.columns)
    return f"select {columns}{more} from {table.source}"  # noqa: S608 - ours


def _fresh(snapshot: Snapshot, before: Collection[BlockRange]) -> str:
    """SQL that finds rows from outside of some segments: other segments', or state's from later."""
    last = max((blocks.last for blocks in before), default=-1)
    known = [table for table in snapshot.history("blocks") if table.blocks.first <= last]
    if not known:
        return "true"
    fresh = (blocks.first for blocks in snapshot.catalog.segments if blocks not in before)
    then = f"select max(vega_time) from {known[-1].source} where height <= {last}"  # noqa: S608
    later = f"_segment = {_NO_SEGMENT} and vega_time > ({then})"
    return f"_segment in ({', '.join(map(str, fresh))}) or ({later})"


def _current_sql(snapshot: Snapshot, wanted: str) -> str | None:
    """SQL for the last row of every provision, of those that hold `wanted`.

    What was provided before the first loaded segment is in the current state only.
    """
    rows = [_rows_sql(held, ", _segment") for held in snapshot.history("liquidity_provisions")]
    live = snapshot.state("live_liquidity_provisions")
    if live:
        rows.append(_rows_sql(live, f", {_NO_SEGMENT}"))
    if not rows:
        return None
    return (
        f"select {LIQUIDITY_PROVISIONS.shown} from ("  # noqa: S608 - ours
        f"select * from ({' union all '.join(rows)}) qualify {_LAST}) where {wanted} "
        "order by vega_time, id"
    )
