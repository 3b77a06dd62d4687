"""The versions of one order (spec 4.5; decision 19): of each version the row written last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.descriptors import Request
from api.core.open_snapshots import Reading
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
    Page,
    Row,
    Window,
    cut,
    page,
    window_of,
)
from api.queries.records import order
from transforms.lookups.lookup_tables import ORDERS

_CURSORS = CursorFormat(
    ("createdAt", TIME), ("id", ID), ("vegaTime", TIME), ("version", NUMBER), extra=1
)
_ID, _TIME, _VERSION, _NUMBER = 1, 2, 3, 4
_FEW_ROWS = 1000
"""Nearly every order has fewer: then all of them are fetched at once, which is fastest."""
_written = itemgetter(_TIME, _NUMBER)


def list_order_versions(reading: Reading, request: Request) -> Page:
    """List an order's versions. Raises `InvalidArgumentError`."""
    if not request.order_id:
        raise InvalidArgumentError(Reason.MISSING_ORDER_ID)
    order_id = asked_id(request.order_id, Reason.INVALID_ORDER_ID, parse=parse_key)
    window = window_of(request, _CURSORS)
    if window.cursor and window.cursor[1] != order_id:
        raise InvalidArgumentError(Reason.INVALID_PAGINATION, "the cursor is of another order")
    versions = _Versions(reading, order_id, _few_rows(reading, order_id))
    section = cut(versions, window, versions.place(window), _own(window))
    # A version that is written again before the next page has another time: its number stays.
    return page(section, _CURSORS.encode_rows(section.rows), order)


def _few_rows(reading: Reading, order_id: str) -> Sequence[Row] | None:
    """All rows of an order; None where there are more than a few."""
    rows: list[Row] = []
    for table in reading.snapshot.history("orders"):
        reading.check_interrupt()
        lookups = table.lookups
        if lookups.may_have(ORDERS, order_id):
            rows += lookups.rows(ORDERS, order_id, _ID, _FEW_ROWS)
            if len(rows) > _FEW_ROWS:
                return None
    return rows


@dataclass(frozen=True, slots=True)
class _Versions:
    """The versions of an order; unless its rows are a `few`, they are read each time."""

    reading: Reading
    order_id: str
    few: Sequence[Row] | None

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        nearest: dict[int, Row] = {}

        def keep() -> list[Row]:
            return sorted(nearest.values(), key=_key, reverse=descending)[:limit]

        for row in self._rows():
            key = _key(row)
            if start and (key > start if descending else key < start):
                continue
            _keep_last(nearest, row)
            if len(nearest) > 2 * limit:
                nearest = {row[_VERSION]: row for row in keep()}
        return keep()

    def place(self, window: Window) -> Values:
        """The version where a cursor stands; the network's own cursors have only its time."""
        if len(window.cursor) != _CURSORS.main:
            return window.cursor[_VERSION:]
        versions: dict[int, Row] = {}
        for row in self._rows():
            _keep_last(versions, row[: _NUMBER + 1])
        moment, down = window.cursor[_TIME], window.descending
        ordered = sorted(versions.values(), key=_key, reverse=down)
        same = (row for row in ordered if row[:_VERSION] == window.cursor)
        beyond = (r for r in ordered if (r[_TIME] <= moment if down else r[_TIME] >= moment))
        for row in (*same, *beyond):
            return _key(row)
        return (-1,) if down else (2**31,)  # it stands behind all of them

    def _rows(self) -> Iterator[Row]:
        """All rows, of those with one time and number the newest last."""
        if self.few is not None:
            yield from _keyed(self.few)
            return
        for table in self.reading.snapshot.history("orders"):
            key = (self.order_id,)
            with closing(table.lookups.pages(ORDERS, key, key)) as pages:
                for page in pages:
                    self.reading.check_interrupt()
                    yield from _keyed(row for row in page if row[_ID] == self.order_id)


def _key(row: Row) -> Values:
    return row[_VERSION : _VERSION + 1]


def _keep_last(versions: dict[int, Row], row: Row) -> None:
    """Keep a row if it is its version's last so far; of those written together the later one."""
    former = versions.get(row[_VERSION])
    if former is None or _written(former) <= _written(row):
        versions[row[_VERSION]] = row


def _keyed(rows: Iterable[Sequence[Any]]) -> Iterator[Row]:
    """Rows with keys as cursors can hold them."""
    for created, id_, written, version, number, *rest in rows:
        yield cursor_time(created), id_, cursor_time(written), version or 0, number or 0, *rest


def _own(window: Window) -> Callable[[Row], bool]:
    """Recognises the row of the cursor: a version stays itself when it is written again later."""
    if len(window.cursor) == _CURSORS.main:
        return lambda row: row[:_VERSION] == window.cursor
    return lambda row: _key(row) == window.cursor[_VERSION:]
