"""Listings that show of equal rows only the last, which may be in another volume than the others.

A volume's rows are the last ones in this volume; a few are in several volumes, and there the newest
counts. Which these are is found once per snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from api.core.open_snapshots import OpenSnapshot, Reading
from api.core.relations import HeldTable
from api.queries.cursors import Values
from api.queries.pagination import Listing, Row
from transforms.lookups.identities import Identities
from transforms.lookups.repeated import Repeated, repeated

# Fetched beyond a page, since a few rows are in two volumes.
_SPARE_ROWS = 4


@dataclass(frozen=True, slots=True)
class LatestSource:
    """The rows of a table of which only the last count.

    `tables` gives those that hold them; `identity` is that of a row, as bytes, and `key` its place
    in the listing, which begins with its time.
    """

    table: str
    tables: Callable[[OpenSnapshot], Sequence[HeldTable]]
    identity: Callable[[Row], bytes]
    key: Callable[[Row], Values]


def latest(reading: Reading, source: LatestSource, listing: Listing) -> Listing:
    """The rows of all volumes without those that a newer volume has written again."""
    again = written_again(reading, source)
    return _LatestListing(listing, source, again) if again else listing


def written_again(reading: Reading, source: LatestSource) -> Mapping[bytes, int]:
    """The rows that more than one volume has, each with its last time in microseconds.

    Found once per snapshot.
    """
    name = f"{source.table} written again"

    def find(snapshot: OpenSnapshot) -> Repeated:
        identities = (Identities(table.lookups, table.table) for table in source.tables(snapshot))
        return repeated(identities, snapshot.former_result(name, Repeated))

    return reading.snapshot.once(name, find).times


@dataclass(frozen=True, slots=True)
class _LatestListing:
    listing: Listing
    source: LatestSource
    written_again: Mapping[bytes, int]

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        results: list[Row] = []
        size = limit + _SPARE_ROWS
        while True:
            rows = self.listing.rows(start, size, descending=descending)
            tail = results[-1:]
            results += [row for row in rows if self._is_last(row) and row not in tail]
            if len(results) >= limit or len(rows) < size:
                return results[:limit]
            start, size = self.source.key(rows[-1]), 2 * size

    def _is_last(self, row: Row) -> bool:
        last = self.written_again.get(self.source.identity(row))
        return last is None or bool(self.source.key(row)[0] >= last)
