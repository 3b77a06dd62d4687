"""The nodes' signatures of a resource (spec 4.3; decision 22), by the signatures' bytes."""

from __future__ import annotations

from operator import itemgetter

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.descriptors import Request
from api.core.open_snapshots import Reading
from api.core.relations import HeldTable, answered_around
from api.queries.cursors import BYTES, ID, CursorFormat, asked_id
from api.queries.pagination import (
    FEW_ROWS,
    Listing,
    MemoryListing,
    Page,
    QueryListing,
    Relation,
    cut,
    page,
    window_of,
)
from api.queries.records import node_signature
from transforms.lookups.lookup_tables import SIGNATURES
from transforms.lookups.row_columns import SIGNATURE

_CURSORS = CursorFormat(("resource_id", ID), ("sig", BYTES))
_ID = 0
_key = itemgetter(0, 1)


def list_node_signatures(reading: Reading, request: Request) -> Page:
    """List a resource's signatures. Raises `InvalidArgumentError`."""
    if not request.id:
        raise InvalidArgumentError(Reason.MISSING_RESOURCE_ID)
    window = window_of(request, _CURSORS)
    resource = asked_id(request.id, Reason.NODE_SIGNATURES, f"resourceID: {request.id}: ")
    if window.cursor and window.cursor[0] != resource:
        raise InvalidArgumentError(Reason.INVALID_PAGINATION, "the cursor is of another resource")
    table = reading.snapshot.state("node_signatures")
    if table is None:
        return Page()
    section = cut(answered_around(lambda: _listing(reading, table, resource)), window)
    return page(section, section.cursors(_CURSORS), node_signature)


def _listing(reading: Reading, table: HeldTable, resource: str) -> Listing:
    """The signatures of a resource: all at once from the pages, nearly always one."""
    if table.lookups is not None:
        rows = table.lookups.rows(SIGNATURES, resource, _ID, FEW_ROWS)
        if len(rows) <= FEW_ROWS:
            return MemoryListing(rows, _key)
    columns = SIGNATURE.inner(table.columns)
    relation = Relation(
        f"select {columns} from {table.source} where resource_id = $1",  # noqa: S608 - ours
        keys=("resource_id", "sig"),
        shown=SIGNATURE.shown,
        bound=1,
        times=0,
    )
    return QueryListing(reading, relation, (resource,))
