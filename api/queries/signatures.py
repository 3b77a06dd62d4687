"""The nodes' signatures of a resource (spec 4.3; decision 22), by the signatures' bytes."""

from __future__ import annotations

from operator import itemgetter

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.descriptors import Request
from api.core.open_snapshots import Reading
from api.queries.cursors import BYTES, ID, CursorFormat, asked_id
from api.queries.pagination import MemoryListing, Page, cut, page, window_of
from api.queries.records import node_signature
from transforms.lookups.lookup_tables import SIGNATURES

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
    rows = table.lookups.rows(SIGNATURES, resource, _ID)  # one for each validator at most
    section = cut(MemoryListing(rows, _key), window)
    return page(section, section.cursors(_CURSORS), node_signature)
