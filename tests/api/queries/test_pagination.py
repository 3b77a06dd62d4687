"""Pages: which rows, which flags, over any rows and any page size (decisions 15 to 18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.core.api_errors import Code, InvalidArgumentError
from api.queries.cursors import ID, NUMBER, TIME, CursorFormat
from api.queries.pagination import (
    Listing,
    MemoryListing,
    Page,
    Row,
    Window,
    cut,
    page,
    window_of,
)
from tests.api.message_types import LIST_WITHDRAWALS
from tests.cases import each_of

_CURSORS = CursorFormat(("vegaTime", TIME), ("id", ID), ("seqNum", NUMBER), extra=1)
Shown = tuple[int, str, int]
Make = Callable[[Sequence[Shown]], Listing]

# Few times and ids, so that rows tie on all but the last key, which is the row's own.
_ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["aa", "ab", "abcd"])), max_size=14
).map(lambda pairs: [(time, id_, n) for n, (time, id_) in enumerate(pairs)])
_SIZES = st.integers(1, 6)


def _in_memory(rows: Sequence[Shown]) -> Listing:
    return MemoryListing(sorted(rows), lambda row: row)


@pytest.fixture(scope="module")
def make() -> Make:
    return _in_memory


def _window(pagination: dict[str, Any]) -> Window:
    return window_of(LIST_WITHDRAWALS(pagination=pagination), _CURSORS)


def _ask(listing: Listing, **pagination: Any) -> Page:
    found = cut(listing, _window(pagination))
    return page(found, found.cursors(_CURSORS), lambda row: row)


def _walk(listings: Iterator[Listing], *, forward: bool, size: int, newest: bool) -> list[Row]:
    """All rows, page by page, in the order in which they are shown."""
    seen: list[Row] = []
    cursor: str | None = None
    for listing in listings:
        if forward:
            asked = _ask(listing, first=size, after=cursor, newest_first=newest)
            seen = [*seen, *asked.records]
            more, cursor = asked.has_next, asked.record[1][-1]
            assert asked.has_previous == (len(seen) > len(asked.records))
        else:
            asked = _ask(listing, last=size, before=cursor, newest_first=newest)
            seen = [*asked.records, *seen]
            more, cursor = asked.has_previous, asked.record[1][-2]
            assert asked.has_next == (len(seen) > len(asked.records))
        assert len(asked.records) == size or not more
        if not more:
            return seen
    raise AssertionError("no end")


def _again(listing: Listing) -> Iterator[Listing]:
    while True:
        yield listing


@given(rows=_ROWS, size=_SIZES, forward=st.booleans(), newest=st.booleans())
@settings(max_examples=60, deadline=None)
def test_walking_either_way_in_either_order_visits_every_row_once(
    make: Make, rows: list[Shown], size: int, forward: bool, newest: bool
) -> None:
    seen = _walk(_again(make(rows)), forward=forward, size=size, newest=newest)
    assert seen == sorted(rows, reverse=newest)


@given(rows=_ROWS, size=_SIZES, newest=st.booleans(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_flags_say_whether_there_is_a_row_on_that_side(
    make: Make, rows: list[Shown], size: int, newest: bool, data: st.DataObject
) -> None:
    listing = make(rows)
    shown = sorted(rows, reverse=newest)
    whole = _ask(listing, first=len(rows) + 1, newest_first=newest)
    assert (whole.has_next, whole.has_previous) == (False, False)
    for at, cursor in enumerate(whole.cursors):
        after = _ask(listing, first=size, after=cursor, newest_first=newest)
        assert [*after.records] == shown[at + 1 : at + 1 + size]
        assert (after.has_previous, after.has_next) == (True, at + 1 + size < len(shown))
        before = _ask(listing, last=size, before=cursor, newest_first=newest)
        assert [*before.records] == shown[max(0, at - size) : at]
        assert (before.has_previous, before.has_next) == (at > size, True)


@given(rows=_ROWS, size=_SIZES, forward=st.booleans(), newest=st.booleans(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_rows_that_stay_are_visited_once_whatever_becomes_of_the_others(
    make: Make, rows: list[Shown], size: int, forward: bool, newest: bool, data: st.DataObject
) -> None:
    """Before every page rows vanish, cursors' own among them, and others appear.

    None appears with the time and id of another: a block has all its rows from the beginning.
    """
    kept = set(data.draw(st.lists(st.sampled_from(rows), unique=True))) if rows else set()

    def snapshots() -> Iterator[Listing]:
        others = [row for row in rows if row not in kept]
        for number in range(100):
            fresh = (data.draw(st.integers(0, 3)), f"a0{number:02}", 0)
            yield make([*kept, *others, fresh])
            others = [row for row in others if data.draw(st.booleans())]

    cursor: str | None = None
    seen: list[Row] = []
    for listing in snapshots():
        if forward:
            asked = _ask(listing, first=size, after=cursor, newest_first=newest)
        else:
            asked = _ask(listing, last=size, before=cursor, newest_first=newest)
        seen += asked.records
        if not asked.records:
            break
        cursor = asked.record[1][-1] if forward else asked.record[1][-2]
    assert sorted(row for row in seen if row in kept) == sorted(kept)


@given(rows=_ROWS, newest=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_cursor_has_the_further_key_only_where_the_others_are_shared(
    make: Make, rows: list[Shown], newest: bool
) -> None:
    shown = _ask(make(rows), newest_first=newest)
    for row, cursor in zip(shown.records, shown.cursors, strict=True):
        shared = sum(other[:2] == row[:2] for other in rows) > 1
        assert len(_CURSORS.decode(cursor)) == (3 if shared else 2)


@given(rows=_ROWS, newest=st.booleans(), forward=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_cursor_without_the_further_key_loses_no_row(
    make: Make, rows: list[Shown], newest: bool, forward: bool
) -> None:
    shown = sorted(rows, reverse=newest)
    for row in shown:
        cursor = _CURSORS.encode(row[:2])
        if forward:
            rest = _ask(make(rows), after=cursor, newest_first=newest).records
            assert {*shown[shown.index(row) + 1 :]} <= {*rest}
        else:
            rest = _ask(make(rows), before=cursor, newest_first=newest).records
            assert {*shown[: shown.index(row)]} <= {*rest}


@each_of(
    ("given", "window"),
    [
        ({}, Window(1000, forward=True, newest_first=True)),
        ({"newest_first": False}, Window(1000, forward=True, newest_first=False)),
        ({"first": 5000}, Window(5000, forward=True, newest_first=True)),
        ({"last": 1}, Window(1, forward=False, newest_first=True)),
        ({"after": "e30="}, Window(1000, forward=True, newest_first=True)),
        ({"before": "e30="}, Window(1000, forward=False, newest_first=True)),
        ({"last": 2, "newest_first": False}, Window(2, forward=False, newest_first=False)),
    ],
)
def test_what_is_not_said_has_a_default(given: dict[str, Any], window: Window) -> None:
    assert _window(given) == window


@each_of(
    ("given", "inner"),
    [
        ({"first": 0}, "pagination limit must be greater than 0"),
        ({"first": -1}, "pagination limit must be greater than 0"),
        ({"last": 0}, "pagination limit must be greater than 0"),
        ({"first": 5001}, "pagination limit must be in range 0-5000"),
        ({"last": 2**31 - 1}, "pagination limit must be in range 0-5000"),
        ({"first": 1, "last": 1}, "cannot provide both forward and backward cursors"),
        ({"first": 1, "before": "e30="}, "cannot provide both forward and backward cursors"),
        ({"last": 1, "after": "e30="}, "cannot provide both forward and backward cursors"),
        ({"after": "e30=", "before": "e30="}, "cannot set both a before and after cursor"),
        ({"after": ""}, "failed to decode after cursor: cursor is empty"),
        ({"before": ""}, "failed to decode before cursor: cursor is empty"),
        (
            {"after": "zzz"},
            "failed to decode after cursor: failed to decode cursor: "
            "illegal base64 data at input byte 0",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], inner: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        _window(given)
    assert caught.value.detail is not None
    assert (caught.value.detail.code, caught.value.detail.inner) == (10028, inner)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_no_more_rows_are_fetched_than_a_page_needs() -> None:
    asked: list[int] = []

    class Counting:
        def rows(self, start: Row, limit: int, *, descending: bool) -> list[Row]:
            asked.append(limit)
            return _in_memory([(n, "aa", n) for n in range(50)]).rows(  # type: ignore[return-value]
                start, limit, descending=descending
            )

    _ask(Counting(), first=10)
    assert asked == [12]
