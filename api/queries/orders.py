"""The versions of one order (spec 4.5; decision 19): of each version the row written last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.descriptors import Request
from api.core.open_snapshots import Reading
from api.core.relations import HeldTable, answered_around, union
from api.queries.cursors import (
    ID,
    NUMBER,
    TIME,
    CursorFormat,
    Values,
    asked_id,
    cursor_time,
    parse_key,
)
from api.queries.pagination import (
    FEW_ROWS,
    MemoryListing,
    Page,
    QueryListing,
    Relation,
    Row,
    Window,
    cut,
    page,
    window_of,
)
from api.queries.records import order
from transforms.lookups.lookup_tables import ORDERS
from transforms.lookups.row_columns import ORDER
from transforms.sessions import Time

_CURSORS = CursorFormat(
    ("createdAt", TIME), ("id", ID), ("vegaTime", TIME), ("version", NUMBER), extra=1
)
_ID, _VERSION = 1, 3


def list_order_versions(reading: Reading, request: Request) -> Page:
    """List an order's versions. Raises `InvalidArgumentError`."""
    if not request.order_id:
        raise InvalidArgumentError(Reason.MISSING_ORDER_ID)
    order_id = asked_id(request.order_id, Reason.INVALID_ORDER_ID, parse=parse_key)
    window = window_of(request, _CURSORS)
    if window.cursor and window.cursor[1] != order_id:
        raise InvalidArgumentError(Reason.INVALID_PAGINATION, "the cursor is of another order")
    few = answered_around(lambda: _few_rows(reading, order_id))
    if few is not None:
        return _page_of_few(_versions(few), window)
    many = reading.snapshot.once(
        "orders of many rows", lambda snapshot: _many(snapshot.history("orders"))
    )
    listing = QueryListing(reading, many, (order_id,))
    section = cut(listing, window, _place_in(listing, window), _own(window))
    return page(section, [_CURSORS.encode(row) for row in section.rows], order)


def _page_of_few(versions: Sequence[Row], window: Window) -> Page:
    """Cut a page out of an order's versions, all of which are here, ascending."""
    place = _place_among(versions, window)
    section = cut(MemoryListing(versions, _key), window, place, _own(window))
    times = [row[:_VERSION] for row in versions]
    if len({*times}) == len(times):
        return page(section, _CURSORS.encode_main(section.rows), order)
    # The network's own keys do, unless several versions were written last in one block.
    keys = (row[:_VERSION] if times.count(row[:_VERSION]) == 1 else row for row in section.rows)
    return page(section, [_CURSORS.encode(key) for key in keys], order)


def _few_rows(reading: Reading, order_id: str) -> Sequence[Row] | None:
    """All rows of an order; None where there are more than a few."""
    matches: list[tuple[int, Row]] = []
    others: list[HeldTable] = []
    for table in reading.snapshot.history("orders"):
        reading.check_interrupt()
        lookups = table.lookups
        if lookups is None:
            others.append(table)
        elif lookups.may_have(ORDERS, order_id):
            rows = lookups.rows(ORDERS, order_id, _ID, FEW_ROWS)
            if len(rows) > FEW_ROWS:
                return None
            matches += ((table.blocks.first, row) for row in rows)
    if others:
        queries = (
            f"(select {ORDER.direct(table.columns)}, _segment, _row "  # noqa: S608
            f"from {table.source} where id = $1)"
            for table in others
        )
        sql = f"{' union all '.join(queries)} order by _segment, _row limit $2"
        rows = reading.rows(sql, [order_id, FEW_ROWS + 1])
        matches += ((row[-2], row[:-2]) for row in rows)
    matches.sort(key=itemgetter(0))
    return [row for _, row in matches] if len(matches) <= FEW_ROWS else None


def _many(tables: Sequence[HeldTable]) -> Relation:
    order = "vega_time desc, seq_num desc, _segment desc, _row desc"
    last = f"row_number() over (partition by version order by {order}) = 1"
    rows = union(
        tables,
        lambda table: (
            f"select {ORDER.inner(table.columns)}, _segment, _row "  # noqa: S608
            f"from {table.source} where id = $1"
        ),
    )
    return Relation(
        f"select * from ({rows}) qualify {last}",  # noqa: S608 - ours
        keys=("version",),
        shown=ORDER.shown,
        bound=1,
        times=0,
    )


def _key(row: Row) -> Values:
    return row[_VERSION : _VERSION + 1]


def _versions(rows: Sequence[Row]) -> list[Row]:
    """Of each version the row written last, ascending; keys as cursors can hold them.

    Of rows with one time and number the last one here is the newest.
    """
    keyed = [
        (cursor_time(created), id_, cursor_time(write_time), version or 0, number or 0, *rest)
        for created, id_, write_time, version, number, *rest in rows
    ]
    keyed.sort(key=itemgetter(_VERSION, 2, 4))
    return [*{row[_VERSION]: row for row in keyed}.values()]


def _place_among(versions: Sequence[Row], window: Window) -> Values:
    """The version where a cursor stands; the network's own cursors have only its time."""
    if len(window.cursor) != _CURSORS.main:
        return window.cursor[_VERSION:]
    moment, down = window.cursor[2], window.descending
    ordered = versions[::-1] if down else versions
    same = (row for row in ordered if row[:_VERSION] == window.cursor)
    beyond = (row for row in ordered if (row[2] <= moment if down else row[2] >= moment))
    row = next(same, None) or next(beyond, None)
    return _key(row) if row else _behind_all(window)


def _place_in(listing: QueryListing, window: Window) -> Values:
    if len(window.cursor) != _CURSORS.main:
        return window.cursor[_VERSION:]
    nearest, than = ("max", "<=") if window.descending else ("min", ">=")
    sql = (
        f"select {nearest}(version) from ({listing.relation.sql}) "  # noqa: S608 - ours
        f"where vega_time {than} $2"
    )
    ((version,),) = listing.reading.rows(sql, [*listing.bound, Time(window.cursor[2])])
    return _behind_all(window) if version is None else (version,)


def _own(window: Window) -> Callable[[Row], bool]:
    """Recognises the row of the cursor: a version stays itself when it is written again later."""
    if len(window.cursor) == _CURSORS.main:
        return lambda row: row[:_VERSION] == window.cursor
    return lambda row: _key(row) == window.cursor[_VERSION:]


def _behind_all(window: Window) -> Values:
    return (-1,) if window.descending else (2**31,)
