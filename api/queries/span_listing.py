"""Rows of many volumes in the order of their times: only those that a page touches are read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import eq
from typing import Any

from api.core.pages import PageRun, read_runs
from api.core.relations import HeldTable
from api.core.snapshots import Reading
from api.queries.cursors import Values
from api.queries.pagination import Listing, Row
from transforms.lookups.key_filters import Hashes, key_hashes
from transforms.lookups.key_pages import PAGE_ROWS, Key, PageIndex, PageTable

# Volumes that are asked at once, at first; each time that was not enough, twice as many.
_VOLUMES, _MOST_VOLUMES = 4, 32
# Pages of one volume that are read at once, unless one page of the answer needs more.
_PAGES = 64


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Volumes whose rows' times overlap, from the first time to the last, in microseconds."""

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
            spans[-1] = TimeSpan(former.first, max(former.last, last), (*former.tables, table))
        else:
            spans.append(TimeSpan(first, last, (table,)))
    return spans


@dataclass(frozen=True, slots=True)
class ListingSource:
    """How the rows of a listing are found in a volume.

    `pages` is the kind of the pages to look into; `prefix` are the values with which the keys of
    the rows there begin, by the first of which the `filter` knows volumes without any (empty: none
    does). `key` gives the whole key of a row, `order` that of the listing, `predicate` says which
    belong to it; `table` gives the rows of a volume without pages.
    """

    pages: PageTable
    prefix: Key
    filter: str
    key: Callable[[Sequence[Any]], Key]
    order: Callable[[Row], Key]
    table: Callable[[HeldTable], Listing]
    predicate: Callable[[Row], bool] | None = None

    def index(self, table: HeldTable) -> PageIndex | None:
        """The pages of a volume; None where it has none."""
        return None if table.lookups is None else table.lookups.pages[self.pages]


@dataclass(frozen=True, slots=True)
class SpanListing:
    """The rows of some spans between two times, in microseconds: from `start` on, before `end`.

    Of rows with one place in the order only the newest is listed: the last one that a volume's
    pages have, in the last volume that has any.
    """

    reading: Reading
    spans: Sequence[TimeSpan]
    source: ListingSource
    start: int | None = None
    end: int | None = None

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        results: list[Row] = []
        low, high = self._ends(start, descending=descending)
        spans = self._reached(low, high, descending=descending)
        together = _VOLUMES
        while len(results) < limit:
            now = [*_some(spans, together, limit - len(results))]
            if not now:
                break
            together = min(2 * together, _MOST_VOLUMES)
            paged = self._paged(now, low, high, limit - len(results), descending=descending)
            for span, _ in now:
                rows: list[Row] = []
                for table in sorted(
                    span.tables, key=lambda table: table.blocks, reverse=descending
                ):
                    rows += (
                        paged[table.alias]
                        if table.alias in paged
                        else self.source.table(table).rows(start, limit, descending=descending)
                    )
                if len(span.tables) > 1:
                    rows.sort(key=self.source.order, reverse=descending)
                    rows = self._newest(rows, descending=descending)
                results += rows[:limit]
        return results[:limit]

    def _newest(self, rows: Sequence[Row], *, descending: bool) -> list[Row]:
        """Of neighbours with one place the newest: the first descending, otherwise the last."""
        places = [self.source.order(row) for row in rows]
        alike = map(eq, places, islice(places, 1, None))
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

    def _reached(
        self, low: Key, high: Key, *, descending: bool
    ) -> Iterator[tuple[TimeSpan, list[PageRun]]]:
        """The spans with rows between two places, as they are met, with the pages to look into."""
        hashes = key_hashes(self.source.prefix[0]) if self.source.filter else None
        for span in self.spans[::-1] if descending else self.spans:
            if (low and span.last < low[0]) or (high and span.first > high[0]):
                continue
            tables = tuple(table for table in span.tables if self._may_hold(table, hashes))
            if tables:
                runs = (self._run(table, low, high) for table in tables)
                yield (
                    TimeSpan(span.first, span.last, tables),
                    [run for run in runs if run is not None],
                )

    def _may_hold(self, table: HeldTable, hashes: Hashes | None) -> bool:
        if hashes is None or table.lookups is None:
            return True
        return table.lookups.filters[self.source.filter].may_hold(hashes)

    def _run(self, table: HeldTable, low: Key, high: Key) -> PageRun | None:
        index = self.source.index(table)
        if index is None:
            return None
        return PageRun.between(
            table.alias, index, self._place(low, index), self._place(high, index)
        )

    def _place(self, end: Key, index: PageIndex) -> Key:
        return (*self.source.prefix, *end)[: len(index.columns)]

    def _paged(
        self,
        spans: Iterable[tuple[TimeSpan, list[PageRun]]],
        low: Key,
        high: Key,
        limit: int,
        *,
        descending: bool,
    ) -> dict[str, list[Row]]:
        """At least `limit` rows, or all, of each volume that has pages, by its file."""
        runs = [run for _, runs in spans for run in runs]
        rows_by_file: dict[str, list[Row]] = {run.file: [] for run in runs}
        # One page more, as the first may begin before. More follow where many rows have the
        # cursor's own time, or few of the rows are wanted.
        most = -(-limit // PAGE_ROWS) + 1
        while runs:
            now = [run.cut(most, descending=descending) for run in runs]
            for run, rows in zip(now, read_runs(self.reading, now), strict=True):
                candidates = [
                    *rows_by_file[run.file],
                    *self._between(rows, low, high, descending=descending),
                ]
                rows_by_file[run.file] = self._newest(candidates, descending=descending)
            rest = (run.rest(most, descending=descending) for run in runs)
            # One more than asked for: the last may be written again in the next page.
            runs = [run for run in rest if run.pages and len(rows_by_file[run.file]) <= limit]
            most = max(most, min(2 * most, _PAGES))
        return rows_by_file

    def _between(
        self, rows: Sequence[list[Any]], low: Key, high: Key, *, descending: bool
    ) -> list[Row]:
        """The rows of pages that are asked for, as they are met."""
        source = self.source
        # A place has the prefix's values again where the order ends with them; a key has them once.
        length = len(source.key(rows[0])) if rows else 0
        low, high = ((*source.prefix, *place)[:length] for place in (low, high))
        begin = bisect_left(rows, low, key=lambda row: source.key(row)[: len(low)])
        end = bisect_right(rows, high, key=lambda row: source.key(row)[: len(high)])
        matches: list[Row] = [*map(tuple, rows[begin:end])]
        if source.predicate is not None:
            matches = [row for row in matches if source.predicate(row)]
        return matches[::-1] if descending else matches


def _some(
    spans: Iterator[tuple[TimeSpan, list[PageRun]]], most: int, limit: int
) -> Iterator[tuple[TimeSpan, list[PageRun]]]:
    """The next spans, until their pages have so many rows, nearly always, or they are enough."""
    for _ in range(most):
        entry = next(spans, None)
        if entry is None:
            return
        yield entry
        limit -= sum(max(0, len(run.pages) - 2) * PAGE_ROWS for run in entry[1])
        if limit <= 0:
            return
