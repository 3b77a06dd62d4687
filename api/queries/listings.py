"""Listings: rows in a total order, from a query or already in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from api.core.snapshots import Reading
from api.queries.cursors import Values
from api.queries.pagination import Row
from transforms.sessions import Time, Value


@dataclass(frozen=True, slots=True)
class Relation:
    """SQL that gives rows, and what of them a listing shows.

    `keys` are the columns of the order, of which `times` many come first and are times; `shown` is
    the select list: the values of the cursor, then what the records are made of. Values are bound
    to `$1` to `$<bound>` of `sql`.
    """

    sql: str
    keys: tuple[str, ...]
    shown: str
    bound: int = 0
    times: int = 1


@dataclass(frozen=True, slots=True)
class QueryListing:
    """The rows of a relation."""

    reading: Reading
    relation: Relation
    bound: tuple[Value, ...] = ()

    def rows(self, start: Values, limit: int, *, descending: bool) -> list[Row]:
        """See `api.queries.pagination.Listing`."""
        times = self.relation.times
        place = [*map(Time, start[:times]), *start[times:]]
        sql = page_sql(self.relation, len(start), descending=descending)
        return self.reading.rows(sql, [*self.bound, *place, limit])


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


@lru_cache(maxsize=256)
def page_sql(relation: Relation, length: int, *, descending: bool) -> str:
    """SQL for the first `$n` rows at or after a place in the order, the place bound before `$n`.

    `length` is how many leading keys the place gives.
    """
    than, way = ("<", "desc") if descending else (">", "asc")
    order = ", ".join(f"{key} {way}" for key in relation.keys)
    first = relation.bound + 1
    where = f"where {_beyond(relation.keys[:length], than, first)}" if length else ""
    return (
        f"select {relation.shown} from (select * from ({relation.sql}) {where} "  # noqa: S608 - ours
        f"order by {order} limit ${first + length})"
    )


def _beyond(keys: Sequence[str], than: str, number: int) -> str:
    """SQL for (keys) at or beyond ($number, ...); spelled out, so that each key can prune."""
    key, *rest = keys
    if not rest:
        return f"{key} {than}= ${number}"
    deeper = _beyond(rest, than, number + 1)
    return f"({key} {than}= ${number} and ({key} {than} ${number} or {deeper}))"
