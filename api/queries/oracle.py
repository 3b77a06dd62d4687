"""Oracle data (spec 4.2; decision 21), the same answers from every schema version.

Up to version 41 its tables are current state, dumped whole; later they are history, and what was
there before is in the last whole copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import md5
from operator import itemgetter

from api.core.api_errors import Reason
from api.core.descriptors import Request
from api.core.open_snapshots import OpenSnapshot, Reading
from api.core.relations import HeldTable
from api.queries.cursors import (
    NUMBER,
    TIME,
    CursorError,
    CursorFormat,
    Form,
    asked_id,
    show_bytes,
    take_bytes,
)
from api.queries.latest_rows import LatestSource, latest, written_again
from api.queries.pagination import (
    Listing,
    Page,
    Row,
    cut,
    page,
    window_of,
)
from api.queries.records import elements, oracle_data
from api.queries.span_listing import SpanListing, known_spans
from transforms.lookups.lookup_tables import ORACLE_BY_SPEC, ORACLE_BY_TIME
from transforms.lookups.oracle_rows import MISSING
from transforms.tables.registry import known_table

_DATA = "oracle_data"
# Of a row; only the pages by spec have the last.
_DATA_PLACE, _SPECS_PLACE, _SPEC = 3, 4, 6


@lru_cache(maxsize=1024)
def _show_signers(signers: str) -> tuple[str, ...] | None:
    return None if signers == MISSING else tuple(map(show_bytes, elements(signers)))


def _take_signers(value: object) -> str:
    if value is None:
        return MISSING
    if not isinstance(value, list):
        raise CursorError(f"{value!r:.60} is not a list of signers")
    return "{" + ",".join(f'"\\\\x{take_bytes(element)}"' for element in value)


_CURSORS = CursorFormat(
    ("vegaTime", TIME),
    ("signers", Form(_show_signers, _take_signers)),
    ("seqNum", NUMBER),
    extra=1,
)
_key = itemgetter(0, 1, 2)


def list_oracle_data(reading: Reading, request: Request) -> Page:
    """List the data of a spec, or the latest of every spec. Raises `InvalidArgumentError`."""
    window = window_of(request, _CURSORS)
    about = "scany: query multiple result rows: "
    spec = asked_id(request.oracle_spec_id, Reason.ORACLE_DATA, about)
    section = cut(_listing(reading, spec), window)
    return page(section, section.cursors(_CURSORS), oracle_data)


def prepare(reading: Reading) -> None:
    """Find what all listings of a snapshot need; see `written_again`."""
    known_spans(reading, _tables(reading.snapshot))
    written_again(reading, _LATEST)


def _listing(reading: Reading, spec: str) -> Listing:
    """The rows of a spec, or the latest of every one."""
    listing = SpanListing(
        reading,
        known_spans(reading, _tables(reading.snapshot)),
        pages=ORACLE_BY_SPEC if spec else ORACLE_BY_TIME,
        prefix=(spec,) if spec else (),
        key=itemgetter(_SPEC, 0, 1, 2) if spec else _key,
        order=_key,
    )
    return listing if spec else latest(reading, _LATEST, listing)


def _tables(snapshot: OpenSnapshot) -> Sequence[HeldTable]:
    """The files that have all rows between them, each row once."""
    return snapshot.once("tables of oracle data", _found_tables)


def _found_tables(snapshot: OpenSnapshot) -> Sequence[HeldTable]:
    history = snapshot.history(_DATA)
    if not history:
        newest = snapshot.state(_DATA)
        return [newest] if newest else []
    catalog = snapshot.catalog
    starts = (
        segment.blocks.first
        for volume in catalog.snapshot.history
        if _DATA in volume.shapes  # as of nearly all: one manifest is read
        for segment in catalog.segments(volume.blocks)
        if _is_history(segment.name.version)
    )
    first = next(starts, history[0].blocks.first)
    older = [copy for copy in snapshot.states(_DATA) if copy.blocks.last < first]
    return [*older[-1:], *history]


@cache
def _is_history(version: int) -> bool:
    table = known_table(_DATA, version)
    return table is not None and table.kind == "history"


def _identity(row: Row) -> bytes:
    """As `transforms.lookups.oracle_rows.identities_sql`."""
    data, spec_ids = row[_DATA_PLACE], row[_SPECS_PLACE]
    text = f"{spec_ids or ''}{'' if data is None else '+' + data}"
    return md5(text.encode(), usedforsecurity=False).digest()


_LATEST = LatestSource(
    _DATA,
    tables=_tables,
    identity=_identity,
    key=_key,
)
