"""The rows of current withdrawals over all volumes: of each withdrawal of a party the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.core.relations import HeldTable, row_ranges, union
from api.core.snapshots import Reading, Snapshot
from api.queries.cursors import Values
from api.queries.listings import MemoryListing, Part, QueryListing, Relation, SequenceListing
from api.queries.pagination import Listing, Row
from api.queries.records import WITHDRAWALS
from transforms.lookups.lookup_tables import LATEST, WITHDRAWALS_LATEST, WITHDRAWALS_OF
from transforms.lookups.zone_maps import ZoneMap
from transforms.sessions import Time, Value

_KEYS = ("vega_time", "id", "party_id")
# What distinguishes two withdrawals of parties, in eight bytes; a row's last value.
_IDENTITY = "hash(id, party_id)"
# Fetched beyond a page, since a few withdrawals are in two volumes.
_SPARE_ROWS = 16


@dataclass(frozen=True, slots=True)
class Period:
    """The times that are asked for, in microseconds: from `start` on, before `end`."""

    start: int | None = None
    end: int | None = None

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

    A row has the columns of `WITHDRAWALS` and one more.
    """
    if not reading.snapshot.history("withdrawals"):
        return MemoryListing((), lambda row: row)
    listing = _of_party(reading, party, period) if party else _of_all(reading, period)
    again = reading.snapshot.once("written again", lambda held: _written_again(reading, held))
    return _CurrentListing(listing, again) if again else listing


def _of_party(reading: Reading, party: str, period: Period) -> Listing:
    """Only the rows are read among which those of the party are."""
    held = reading.snapshot.history("withdrawals")
    ranges = [*row_ranges(held, lambda lookups: lookups.rows_of_party(party))]
    if not ranges:
        return MemoryListing((), lambda row: row)
    tables = [table for table, _ in ranges]
    filters = period.filters
    relation = reading.snapshot.of_volumes(
        f"withdrawals of a party {filters}",
        tables,
        lambda: _relation(tables, filters, of_party=True, placed=True),
    )
    bounds = [bound for _, rows in ranges for bound in rows or ()]
    return QueryListing(reading, relation, (*period.bounds, party, *bounds))


def _of_all(reading: Reading, period: Period) -> SequenceListing:
    """All rows: volumes follow each other in time, so that a page needs few of them."""
    times = reading.snapshot.once(
        "withdrawals by time", lambda held: _periods(reading, held.history("withdrawals"))
    )
    return SequenceListing(
        [Part(first, last, _of_volumes(reading, tables, period)) for first, last, tables in times]
    )


def _of_volumes(reading: Reading, tables: Sequence[HeldTable], period: Period) -> Listing:
    files, filters = " ".join(table.file for table in tables), period.filters
    relation = reading.snapshot.once(
        f"withdrawals in {files} {filters}", lambda _: _relation(tables, filters)
    )
    listing = QueryListing(reading, relation, period.bounds)
    lookups = tables[0].lookups
    if len(tables) > 1 or lookups is None:
        return listing
    near = reading.snapshot.once(
        f"withdrawals near in {files} {filters}",
        lambda _: _relation(tables, filters, placed=True),
    )
    return _NearListing(listing, near, lookups.time_map, period)


@dataclass(frozen=True, slots=True)
class _NearListing:
    """The rows of one volume, which lie there by time: those around a page are all that is read."""

    listing: QueryListing
    near: Relation
    zone_map: ZoneMap[int]
    period: Period

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        edge = self.period.end if descending else self.period.start
        times = [time for time in (*start[:1], edge) if time is not None]
        time = (min if descending else max)(times) if times else None
        place = self.zone_map.near(time, limit, descending=descending)
        if place is not None:
            bound: tuple[Value, ...] = (*self.period.bounds, *place)
            listing = QueryListing(self.listing.reading, self.near, bound)
            rows = listing.rows(start, limit, descending=descending)
            if len(rows) == limit or self.zone_map.reaches_end(place, descending=descending):
                return rows
        return self.listing.rows(start, limit, descending=descending)


def _periods(
    reading: Reading, tables: Sequence[HeldTable]
) -> list[tuple[int, int, list[HeldTable]]]:
    """Volumes by the times of their rows, oldest first; those that overlap stay together.

    Infinite times, which no network writes, are left out: nothing could be compared with them.
    """
    spans = union(
        tables,
        lambda table: (
            f"select {tables.index(table)} as number, epoch_us(min(vega_time)) as first, "  # noqa: S608
            f"epoch_us(max(vega_time)) as last from {table.lookup(WITHDRAWALS_LATEST)} "
            "where isfinite(vega_time)"
        ),
    )
    periods: list[tuple[int, int, list[HeldTable]]] = []
    for number, first, last in reading.rows(
        f"from ({spans}) where first is not null order by first"
    ):
        if periods and first <= periods[-1][1]:
            begun, ended, together = periods[-1]
            periods[-1] = (begun, max(ended, last), [*together, tables[number]])
        else:
            periods.append((first, last, [tables[number]]))
    return periods


@dataclass(frozen=True, slots=True)
class _CurrentListing:
    """The rows of all volumes without those that a newer volume has written again.

    `written_again` maps an identity to when it was last written, in microseconds.
    """

    listing: Listing
    written_again: Mapping[int, int]

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
            start, wanted = rows[-1][: len(_KEYS)], 2 * wanted

    def _is_last(self, row: Row) -> bool:
        return bool(row[0] == self.written_again.get(row[-1], row[0]))


def _written_again(reading: Reading, snapshot: Snapshot) -> Mapping[int, int]:
    """The withdrawals that more than one volume has, each with its last time."""
    tables = snapshot.history("withdrawals")
    if len(tables) < 2:
        return {}
    identities = union(
        tables,
        lambda table: (
            f"select {_IDENTITY} as identity, vega_time, "  # noqa: S608 - ours
            f"{table.blocks.first} as volume from {table.lookup(WITHDRAWALS_LATEST)}"
        ),
    )
    rows = reading.rows(
        f"select identity, epoch_us(max(vega_time)) from ({identities}) "  # noqa: S608 - ours
        "group by identity having min(volume) <> max(volume)"
    )
    return dict(rows)


def _relation(
    tables: Sequence[HeldTable], filters: str, *, of_party: bool = False, placed: bool = False
) -> Relation:
    """The rows of some volumes; `placed` ones with two bounds for each that has lookups."""
    bound = filters.count("$") + of_party
    party = f"party_id = ${bound}" if of_party else "true"
    queries = []
    for table in tables:
        wanted = party
        if placed and table.lookups is not None:
            wanted = f"{party} and rowid between ${bound + 1} and ${bound + 2}"
            bound += 2
        queries.append(f"({_latest_sql(table, wanted, of_party)})")
    rows = " union all ".join(queries)
    sql = f"select * from ({rows}) where {filters or 'true'}"  # noqa: S608 - ours
    shown = f"{WITHDRAWALS.shown}, {_IDENTITY}"
    return Relation(sql, _KEYS, shown, bound)


def _latest_sql(table: HeldTable, wanted: str, of_party: bool) -> str:
    """SQL for the last row in a volume of each withdrawal that is wanted."""
    rows = table.lookup(WITHDRAWALS_OF if of_party else WITHDRAWALS_LATEST)
    last = f"qualify {LATEST}" if rows == table.source else ""
    return f"select {WITHDRAWALS.inner(table)} from {rows} where {wanted} {last}"  # noqa: S608
