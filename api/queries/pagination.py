"""Pages of a listing (spec 2.1; decisions 15 to 18): what is asked for, and cutting it out.

A listing is any rows in a total order. A row begins with the values of its cursor.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any, Protocol

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.descriptors import Request, given
from api.queries.cursors import CursorError, CursorFormat, Values

Row = tuple[Any, ...]
Record = tuple[Any, ...]
"""A message's fields in the order of its declaration; see `api.queries.records`."""

DEFAULT_LIMIT = 1000
MAX_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class Window:
    """At most `limit` rows on one side of a cursor; an empty cursor is the end one comes from."""

    limit: int
    forward: bool
    newest_first: bool
    cursor: Values = ()

    @property
    def descending(self) -> bool:
        """Whether the rows are met from newer to older, going away from the cursor."""
        return self.newest_first == self.forward


def window_of(request: Request, cursors: CursorFormat) -> Window:
    """What the pagination of a request asks for.

    Raises `InvalidArgumentError` where its parameters contradict each other.
    """
    pagination = given(request.pagination)
    try:
        return _window(cursors, **pagination)
    except CursorError as error:
        side = "before" if "before" in pagination else "after"
        inner = f"failed to decode {side} cursor: {error}"
        raise InvalidArgumentError(Reason.INVALID_PAGINATION, inner) from error
    except ValueError as error:
        raise InvalidArgumentError(Reason.INVALID_PAGINATION, str(error)) from error


def _window(
    cursors: CursorFormat,
    first: int | None = None,
    after: str | None = None,
    last: int | None = None,
    before: str | None = None,
    *,
    newest_first: bool = True,
) -> Window:
    if after is not None and before is not None:
        raise ValueError("cannot set both a before and after cursor")
    forward = first is not None or after is not None
    backward = last is not None or before is not None
    if forward and backward:
        raise ValueError("cannot provide both forward and backward cursors")
    size = last if backward else first
    if size is not None and size <= 0:
        raise ValueError("pagination limit must be greater than 0")
    if size is not None and size > MAX_LIMIT:
        raise ValueError(f"pagination limit must be in range 0-{MAX_LIMIT}")
    text = before if backward else after
    if text == "":
        raise CursorError("cursor is empty")
    return Window(
        limit=DEFAULT_LIMIT if size is None else size,
        forward=not backward,
        newest_first=newest_first,
        cursor=() if text is None else cursors.decode(text),
    )


class Listing(Protocol):
    """Rows in a total order, oldest first or, descending, newest first."""

    def rows(self, start: Values, limit: int, *, descending: bool) -> Sequence[Row]:
        """The first rows at or after `start`, the leading values of the order's keys.

        An empty start is before all rows.
        """
        ...


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of a window in the order of display, and the ones next to them where there are."""

    rows: Sequence[Row]
    previous: Row | None
    following: Row | None

    def cursors(self, cursors: CursorFormat) -> list[str]:
        """The rows' cursors, with the extra key where a neighbour's are otherwise the same."""
        encoded = cursors.encode_rows(self.rows, cursors.main)
        ends = [
            None if row is None else cursors.encode(row[: cursors.main])
            for row in (self.previous, self.following)
        ]
        same = [*map(eq, [ends[0], *encoded], [*encoded, ends[1]])]
        if True in same:
            for at, row in enumerate(self.rows):
                if same[at] or same[at + 1]:
                    encoded[at] = cursors.encode(row)
        return encoded


@dataclass(frozen=True, slots=True)
class Page:
    """A page of records, as both shells answer it."""

    records: Sequence[Record] = ()
    cursors: Sequence[str] = ()
    has_next: bool = False
    has_previous: bool = False

    @property
    def record(self) -> Record:
        """The record of its connection (spec 2.1): edges and page info; without rows no cursors."""
        ends = (self.cursors[0], self.cursors[-1]) if self.cursors else ("", "")
        edges = [*zip(self.records, self.cursors, strict=True)]
        return edges, (self.has_next, self.has_previous, *ends)


def cut(
    listing: Listing,
    window: Window,
    start: Values | None = None,
    own: Callable[[Row], bool] | None = None,
) -> Cut:
    """Cut a window out of a listing.

    `start` is the cursor's place in the listing's order, and `own` recognises the cursor's own row,
    both if the order's keys are not the cursor's values. That row may be gone: the page begins with
    the first row behind its place.
    """
    start = window.cursor if start is None else start
    own = own or (lambda row: row[: len(window.cursor)] == window.cursor)
    down = window.descending
    rows = [*listing.rows(start, window.limit + 2, descending=down)]
    passed: Row | None = None
    if window.cursor:
        if rows and own(rows[0]):
            passed = rows.pop(0)
        else:
            passed = _passed(listing.rows(start, 2, descending=not down), rows)
    beyond = rows[window.limit] if len(rows) > window.limit else None
    rows = rows[: window.limit]
    if window.forward:
        return Cut(rows, passed, beyond)
    return Cut(rows[::-1], beyond, passed)


def _passed(candidates: Sequence[Row], rows: Sequence[Row]) -> Row | None:
    """The nearest row before the cursor's place; the search may have met the first one after."""
    return next((row for row in candidates if not rows or row != rows[0]), None)


def page(cut: Cut, cursors: Sequence[str], record: Callable[[Row], Record]) -> Page:
    """Make the page of a cut (decision 18)."""
    return Page(
        [record(row) for row in cut.rows],
        cursors,
        has_next=cut.following is not None,
        has_previous=cut.previous is not None,
    )


@dataclass(frozen=True, slots=True)
class MemoryListing:
    """Rows that are all here, ascending by `key`."""

    ascending: Sequence[Row]
    key: Callable[[Row], Values]

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        length = len(start)

        def place(row: Row) -> Values:
            return self.key(row)[:length]

        if descending:
            end = bisect_right(self.ascending, start, key=place) if start else len(self.ascending)
            return [*self.ascending[max(0, end - limit) : end]][::-1]
        begin = bisect_left(self.ascending, start, key=place)
        return [*self.ascending[begin : begin + limit]]
