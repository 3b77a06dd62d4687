"""The rows of current withdrawals over all volumes: of each withdrawal of a party the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5

from api.core.pages import PageRun, read_runs
from api.core.relations import HeldTable, union
from api.core.snapshots import Reading, Snapshot
from api.queries.cursors import Values
from api.queries.listings import QueryListing, Relation
from api.queries.pagination import Listing, Row
from transforms.lookups.key_filters import Hashes, key_hashes
from transforms.lookups.key_pages import PAGE_ROWS, Key, PageIndex, prefix
from transforms.lookups.lookup_tables import IDENTITIES, identities_sql, latest_sql
from transforms.lookups.row_columns import WITHDRAWAL
from transforms.sessions import Time, Value

_TIME, _ID, _PARTY = 0, 1, 2
_KEYS = ("vega_time", "id", "party_id")
_WRITTEN_AGAIN = "withdrawals written again"
# Fetched beyond a page, since a few withdrawals are in two volumes.
_SPARE_ROWS = 16
# Volumes that are asked at once, at first; each time that was not enough, twice as many.
_VOLUMES = 4


@dataclass(frozen=True, slots=True)
class Period:
    """The times that are asked for, in microseconds: from `start` on, before `end`."""

    start: int | None = None
    end: int | None = None

    def reaches(self, first: int, last: int) -> bool:
        """Whether rows from one time to another can be of the period."""
        return (self.start is None or last >= self.start) and (self.end is None or first < self.end)

    @property
    def filters(self) -> str:
        """SQL over rows, in which `bounds` are bound to `$1`, ...; empty for all rows."""
        asked = [than for than, time in ((">=", self.start), ("<", self.end)) if time is not None]
        return " and ".join(f"vega_time {than} ${at}" for at, than in enumerate(asked, 1))

    @property
    def bounds(self) -> tuple[Time, ...]:
        """What `filters` binds."""
        return tuple(Time(time) for time in (self.start, self.end) if time is not None)


def current_withdrawals(reading: Reading, party: str, period: Period) -> Listing:
    """The withdrawals of a party, or of all for an empty one, ascending by time, id and party.

    A row has the columns of `WITHDRAWAL`.
    """
    spans = [span for span in _spans(reading) if period.reaches(span.first, span.last)]
    hashes = key_hashes(party) if party else None
    listing = _SpanListing(reading, spans, party, hashes, period)
    again = written_again(reading)
    return _CurrentListing(listing, again) if again else listing


def withdrawals_with_id(reading: Reading, id_: str) -> list[Row]:
    """The last row in each volume of the withdrawals with an id, in no order."""
    hashes, key = key_hashes(id_), (prefix(id_),)
    runs: list[PageRun] = []
    queries: list[str] = []
    for table in reading.snapshot.history("withdrawals"):
        found = table.lookups
        if found is None:
            rows = latest_sql(table.source)
            queries.append(
                f"(select {WITHDRAWAL.direct(table.columns)} from ({rows}) where id = $1)"  # noqa: S608
            )
        elif found.withdrawals.may_hold(hashes):
            runs.append(PageRun.between(table.file, found.by_id, key, key))
    paged = [row for rows in read_runs(reading, runs) for row in rows if row[_ID] == id_]
    return [*paged, *(reading.rows(" union all ".join(queries), [id_]) if queries else ())]


def written_again(reading: Reading, before: Snapshot | None = None) -> Mapping[bytes, int]:
    """The withdrawals that more than one volume has, each with its last time in microseconds.

    Found once per generation; with the one `before`, only what it did not have is looked for.
    """
    return reading.snapshot.once(_WRITTEN_AGAIN, lambda held: _written_again(reading, held, before))


@dataclass(frozen=True, slots=True)
class _Span:
    """Volumes whose rows' times overlap, from the first time to the last, in microseconds."""

    first: int
    last: int
    tables: tuple[HeldTable, ...]


def _spans(reading: Reading) -> Sequence[_Span]:
    """All volumes, oldest first: nearly always each is a span of its own."""
    return reading.snapshot.once("withdrawals by time", lambda held: _found_spans(reading, held))


def _found_spans(reading: Reading, snapshot: Snapshot) -> list[_Span]:
    spans: list[_Span] = []
    held = [(_times(reading, table), table) for table in snapshot.history("withdrawals")]
    known = [(times, table) for times, table in held if times is not None]
    for (first, last), table in sorted(known, key=lambda one: one[0]):
        if spans and first <= spans[-1].last:
            former = spans[-1]
            spans[-1] = _Span(former.first, max(former.last, last), (*former.tables, table))
        else:
            spans.append(_Span(first, last, (table,)))
    return spans


def _times(reading: Reading, table: HeldTable) -> tuple[int, int] | None:
    if table.lookups is not None:
        return table.lookups.times
    rows = identities_sql(f"({latest_sql(table.source)})")
    ((first, last),) = reading.rows(f"select min(written), max(written) from ({rows})")  # noqa: S608
    return None if first is None else (first, last)


@dataclass(frozen=True, slots=True)
class _SpanListing:
    """The last row in each volume of the withdrawals of a party, or of all for an empty one.

    Volumes follow each other in time, so that a page needs few of them.
    """

    reading: Reading
    spans: Sequence[_Span]
    party: str
    hashes: Hashes | None
    period: Period

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        found: list[Row] = []
        asked, together = [*self._reached(start, descending=descending)], _VOLUMES
        while asked and len(found) < limit:
            now, asked, together = asked[:together], asked[together:], together * 2
            for rows in self._rows(now, start, limit - len(found), descending=descending):
                found += rows
        return found[:limit]

    def _reached(self, start: Values, *, descending: bool) -> Iterable[tuple[HeldTable, ...]]:
        """The volumes with rows at or after a start, span by span, as they are met."""
        for span in self.spans[::-1] if descending else self.spans:
            passed = start and (span.first > start[0] if descending else span.last < start[0])
            if not passed:
                tables = tuple(table for table in span.tables if self._may_hold(table))
                if tables:
                    yield tables

    def _may_hold(self, table: HeldTable) -> bool:
        return (
            self.hashes is None
            or table.lookups is None
            or table.lookups.parties.may_hold(self.hashes)
        )

    def _rows(
        self, spans: Sequence[Sequence[HeldTable]], start: Values, limit: int, *, descending: bool
    ) -> Iterable[list[Row]]:
        """At most `limit` rows of each span, in order; pages of all are read at once."""
        tables = [table for span in spans for table in span]
        paged = self._paged(tables, start, limit, descending=descending)
        for span in spans:
            rows: list[Row] = []
            for table in span:
                if table.file in paged:
                    rows += paged[table.file]
                else:
                    listing = _table_listing(self.reading, table, self.party, self.period)
                    rows += listing.rows(start, limit, descending=descending)
            if len(span) > 1:
                rows.sort(key=_key, reverse=descending)
            yield rows[:limit]

    def _paged(
        self, tables: Sequence[HeldTable], start: Values, limit: int, *, descending: bool
    ) -> dict[str, list[Row]]:
        """At least `limit` rows, or all, of each volume that has pages, by its file."""
        low, high = self._ends(start, descending=descending)
        runs = [
            self._run(table, index, low, high)
            for table in tables
            if (index := self._index(table)) is not None
        ]
        found: dict[str, list[Row]] = {}
        # One page more, as the first may begin before; yet many can have the cursor's own time.
        most = -(-limit // PAGE_ROWS) + 1
        while runs:
            cut = [run.cut(most, descending=descending) for run in runs]
            for run, rows in zip(runs, read_runs(self.reading, cut), strict=True):
                found[run.file] = self._between(rows, low, high, descending=descending)
            runs = [run for run in runs if len(run.pages) > most and len(found[run.file]) < limit]
            most *= 4
        return found

    def _index(self, table: HeldTable) -> PageIndex | None:
        if table.lookups is None:
            return None
        return table.lookups.by_party if self.party else table.lookups.by_time

    def _run(self, table: HeldTable, index: PageIndex, low: Key, high: Key) -> PageRun:
        if self.party:
            return PageRun.between(
                table.file, index, (self.party, *low[:1]), (self.party, *high[:1])
            )
        return PageRun.between(table.file, index, low[:1], high[:1])

    def _ends(self, start: Values, *, descending: bool) -> tuple[Key, Key]:
        """The least and the greatest key that are asked for, or their leading values."""
        period = self.period
        low: Key = () if period.start is None else (period.start,)
        high: Key = () if period.end is None else (period.end - 1,)
        if not descending:
            return max(low, start), high
        return low, start if start and (not high or start[0] <= high[0]) else high

    def _between(self, rows: Sequence[Row], low: Key, high: Key, *, descending: bool) -> list[Row]:
        """The rows of pages that are asked for, as they are met."""
        return [
            row
            for row in (rows[::-1] if descending else rows)
            if (not self.party or row[_PARTY] == self.party)
            and _key(row)[: len(low)] >= low
            and (not high or _key(row)[: len(high)] <= high)
        ]


def _key(row: Row) -> Key:
    return row[: len(_KEYS)]


def _table_listing(reading: Reading, table: HeldTable, party: str, period: Period) -> Listing:
    """The rows of a volume that has no lookups."""
    filters = period.filters
    bound: tuple[Value, ...] = period.bounds
    wanted = [filters] if filters else []
    if party:
        wanted.append(f"party_id = ${len(bound) + 1}")
        bound = (*bound, party)
    rows = latest_sql(table.source)
    sql = (
        f"select {WITHDRAWAL.inner(table.columns)} from ({rows}) "  # noqa: S608 - ours
        f"where {' and '.join(wanted) or 'true'}"
    )
    return QueryListing(reading, Relation(sql, _KEYS, WITHDRAWAL.shown, len(bound)), bound)


@dataclass(frozen=True, slots=True)
class _CurrentListing:
    """The rows of all volumes without those that a newer volume has written again."""

    listing: Listing
    written_again: Mapping[bytes, int]

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        found: list[Row] = []
        wanted = limit + _SPARE_ROWS
        while True:
            rows = self.listing.rows(start, wanted, descending=descending)
            met = found[-1:]
            found += [row for row in rows if self._is_last(row) and row not in met]
            if len(found) >= limit or len(rows) < wanted:
                return found[:limit]
            start, wanted = _key(rows[-1]), 2 * wanted

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
    known, fresh = _known(snapshot, before)
    if len(tables) < 2 or not fresh:
        return known
    rows = f"({union(tables, _identities)})"
    if known or len(fresh) < len(tables):
        rows = f"{rows} semi join ({union(fresh, _identities)}) using (identity)"
    found = reading.rows(
        f"select identity, max(written) from {rows} "  # noqa: S608 - ours
        "group by identity having count(*) > 1"
    )
    return {**known, **{number.to_bytes(16, "little"): last for number, last in found}}


def _known(
    snapshot: Snapshot, before: Snapshot | None
) -> tuple[Mapping[bytes, int], Sequence[HeldTable]]:
    """What the generation before found, and the volumes that it did not have.

    Nothing is known where one of its volumes is gone whose blocks are not in a newer one.
    """
    tables = snapshot.history("withdrawals")
    known = None if before is None else before.made(_WRITTEN_AGAIN)
    if before is None or known is None:
        return {}, tables
    formerly = {table.file for table in before.history("withdrawals")}
    fresh = [table for table in tables if table.file not in formerly]
    present = {table.file for table in tables}
    for gone in before.history("withdrawals"):
        if gone.file not in present and not any(
            table.blocks.first <= gone.blocks.first and gone.blocks.last <= table.blocks.last
            for table in fresh
        ):
            return {}, tables
    return known, fresh


def _identities(table: HeldTable) -> str:
    if table.lookups is not None:
        return f"select identity, written from {table.file}.strata.{IDENTITIES}"  # noqa: S608
    return identities_sql(f"({latest_sql(table.source)})")
