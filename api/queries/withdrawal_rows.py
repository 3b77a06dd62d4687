"""The rows of current withdrawals over all volumes: of each withdrawal of a party the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.cursors import Values
from api.listings import MemoryListing, Part, QueryListing, Relation, SequenceListing
from api.pagination import Listing, Row
from api.records import WITHDRAWALS
from api.relations import HeldTable, union
from api.snapshots import Reading, Snapshot
from transforms.lookups import LATEST, WITHDRAWALS_LATEST, WITHDRAWALS_OF
from transforms.serving import Time

_KEYS = ("vega_time", "id", "party_id")
# What tells two withdrawals of parties apart, in eight bytes; a row's last value.
_IDENTITY = "hash(id, party_id)"
# Fetched beyond a page, since a few withdrawals are in two volumes.
_SPARE_ROWS = 16


def current_withdrawals(
    reading: Reading, party: str, filters: str, bounds: Sequence[Time]
) -> Listing:
    """The withdrawals of a party, or of all for an empty one, ascending by time, id and party.

    A row has the columns of `WITHDRAWALS` and one more. `filters` is SQL over the rows in which
    `bounds` are bound to `$1`, ...; empty for all rows.
    """
    if not reading.snapshot.history("withdrawals"):
        return MemoryListing((), lambda row: row)
    if party:
        listing: Listing = _of_party(reading, party, bounds, filters)
    else:
        listing = _of_all(reading, bounds, filters)
    again = reading.snapshot.once("written again", lambda held: _written_again(reading, held))
    return _CurrentListing(listing, again) if again else listing


def _of_party(reading: Reading, party: str, bounds: Sequence[Time], filters: str) -> QueryListing:
    tables = reading.snapshot.history("withdrawals")
    relation = reading.snapshot.once(
        f"withdrawals of a party {filters}", lambda _: _relation(tables, filters, of_party=True)
    )
    return QueryListing(reading, relation, (*bounds, party))


def _of_all(reading: Reading, bounds: Sequence[Time], filters: str) -> SequenceListing:
    """All rows: volumes follow each other in time, so that a page needs few of them."""

    def parts(snapshot: Snapshot) -> list[tuple[int, int, Relation]]:
        return [
            (first, last, _relation(tables, filters, of_party=False))
            for first, last, tables in _periods(reading, snapshot.history("withdrawals"))
        ]

    made = reading.snapshot.once(f"withdrawals {filters}", parts)
    return SequenceListing(
        [
            Part(first, last, QueryListing(reading, relation, tuple(bounds)))
            for first, last, relation in made
        ]
    )


def _periods(
    reading: Reading, tables: Sequence[HeldTable]
) -> list[tuple[int, int, list[HeldTable]]]:
    """Volumes by the times of their rows, oldest first; those that overlap stay together."""
    spans = union(
        tables,
        lambda table: (
            f"select {tables.index(table)} as number, epoch_us(min(vega_time)) as first, "  # noqa: S608
            f"epoch_us(max(vega_time)) as last from {table.lookup(WITHDRAWALS_LATEST)}"
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
        """See `api.pagination.Listing`."""
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
        last: int = self.written_again.get(row[-1], row[0])
        return bool(row[0] >= last)


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


def _relation(tables: Sequence[HeldTable], filters: str, *, of_party: bool) -> Relation:
    bound = filters.count("$") + of_party
    party = f"party_id = ${bound}" if of_party else "true"
    rows = union(tables, lambda table: _latest_sql(table, party, of_party))
    sql = f"select * from ({rows}) where {filters or 'true'}"  # noqa: S608 - ours
    shown = f"{WITHDRAWALS.shown}, {_IDENTITY}"
    return Relation(sql, _KEYS, shown, bound)


def _latest_sql(table: HeldTable, wanted: str, of_party: bool) -> str:
    """SQL for the last row in a volume of each withdrawal that is wanted."""
    rows = table.lookup(WITHDRAWALS_OF if of_party else WITHDRAWALS_LATEST)
    last = f"qualify {LATEST}" if rows == table.source else ""
    return f"select {WITHDRAWALS.inner(table)} from {rows} where {wanted} {last}"  # noqa: S608
