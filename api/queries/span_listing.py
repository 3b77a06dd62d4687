"""Rows of many volumes in the order of their times: only those that a page touches are read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from operator import eq
from typing import Any

from api.core.open_snapshots import OpenSnapshot, Reading
from api.core.relations import HeldTable
from api.queries.cursors import Values
from api.queries.pagination import Row
from transforms.lookups.index_file import IndexFile
from transforms.lookups.key_pages import Key, PageTable
from transforms.lookups.lookup_tables import times_of


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Volumes whose rows' times overlap, from the first time to the last, in microseconds.

    They come in the order of their blocks.
    """

    first: int
    last: int
    tables: tuple[HeldTable, ...]


def spans_of(tables: Iterable[tuple[HeldTable, tuple[int, int] | None]]) -> list[TimeSpan]:
    """Volumes with the times of their rows, oldest first: nearly always each alone in its span.

    Those without rows are left out.
    """
    spans: list[TimeSpan] = []
    timed_tables = [(times, table) for table, times in tables if times is not None]
    for (first, last), table in sorted(timed_tables, key=lambda item: item[0]):
        if spans and first <= spans[-1].last:
            former = spans[-1]
            together = sorted((*former.tables, table), key=lambda table: table.blocks)
            spans[-1] = TimeSpan(former.first, max(former.last, last), tuple(together))
        else:
            spans.append(TimeSpan(first, last, (table,)))
    return spans


def known_spans(reading: Reading, tables: Sequence[HeldTable]) -> Sequence[TimeSpan]:
    """The spans of the same table of volumes, found once for each snapshot."""

    def find(_: OpenSnapshot) -> Sequence[TimeSpan]:
        return spans_of((table, times_of(table.lookups, table.table)) for table in tables)

    return reading.snapshot.once(("spans", *(table.table for table in tables[:1])), find)


@dataclass(frozen=True, slots=True)
class SpanListing:
    """The rows of some spans between two times, in microseconds: from `start` on, before `end`.

    `pages` is the kind of the pages to look into in a volume; `prefix` are the values with which
    the keys of the rows there begin. `order` gives the place of a row in the listing, `key` that
    after the values of the prefix, `predicate` says which belong to it.

    Of rows with one place in the order only the newest is listed: the last one that a volume's
    pages have, in the last volume that has any.
    """

    reading: Reading
    spans: Sequence[TimeSpan]
    pages: PageTable
    prefix: Key
    key: Callable[[Sequence[Any]], Key]
    order: Callable[[Row], Key]
    predicate: Callable[[Row], bool] | None = None
    start: int | None = None
    end: int | None = None

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        results: list[Row] = []
        low, high = self._ends(start, descending=descending)
        for span in self.spans[::-1] if descending else self.spans:
            if (low and span.last < low[0]) or (high and span.first > high[0]):
                continue
            rows: list[Row] = []
            for table in span.tables[::-1] if descending else span.tables:
                self.reading.check_interrupt()
                index = table.lookups
                if not self.prefix or index.may_have(self.pages, self.prefix[0]):
                    most = limit - len(results)
                    rows += self._paged(index, low, high, most, descending=descending)
            if len(span.tables) > 1:
                rows.sort(key=self.order, reverse=descending)
                rows = self._newest(rows, descending=descending)
            results += rows[:limit]
            if len(results) >= limit:
                break
        return results[:limit]

    def _newest(self, rows: Sequence[Row], *, descending: bool) -> list[Row]:
        """Of neighbours with one place the newest: the first descending, otherwise the last."""
        places = [*map(self.order, rows)]
        alike = [*map(eq, places, islice(places, 1, None))]
        if True not in alike:
            return [*rows]
        if descending:
            return [row for row, again in zip(rows, [False, *alike], strict=False) if not again]
        return [row for row, again in zip(rows, [*alike, False], strict=False) if not again]

    def _ends(self, start: Values, *, descending: bool) -> tuple[Key, Key]:
        """The least and the greatest place that are asked for, or their leading values."""
        low: Key = () if self.start is None else (self.start,)
        high: Key = () if self.end is None else (self.end - 1,)
        if not descending:
            return max(low, start), high
        return low, start if start and (not high or start[0] <= high[0]) else high

    def _paged(
        self, index: IndexFile, low: Key, high: Key, limit: int, *, descending: bool
    ) -> list[Row]:
        """At least `limit` rows of a volume, or all, as they are met."""
        rows: list[Row] = []
        first, last = self._place(low), self._place(high)
        with closing(index.pages(self.pages, first, last, descending=descending)) as pages:
            for page in pages:
                self.reading.check_interrupt()
                beyond = self._between(page, low, high, descending=descending)
                rows[-1:] = self._newest([*rows[-1:], *beyond], descending=descending)
                if len(rows) > limit:  # by one: the last may be written again in the next page
                    break
        return rows

    def _place(self, end: Key) -> Key:
        return (*self.prefix, *end)[: len(self.pages.key)]

    def _between(
        self, rows: Sequence[list[Any]], low: Key, high: Key, *, descending: bool
    ) -> list[Row]:
        """The rows of pages that are asked for, as they are met."""
        low, high = ((*self.prefix, *place) for place in (low, high))
        begin, end = 0, len(rows)
        if low:
            begin = bisect_left(rows, low, key=lambda row: self.key(row)[: len(low)])
        if high:
            end = bisect_right(rows, high, key=lambda row: self.key(row)[: len(high)])
        matches: list[Row] = [*map(tuple, rows[begin:end])]
        if self.predicate is not None:
            matches = [row for row in matches if self.predicate(row)]
        return matches[::-1] if descending else matches
