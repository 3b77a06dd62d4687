"""The nodes' signatures of a resource (spec 4.3; decision 22), by the signatures' bytes."""

from __future__ import annotations

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.snapshots import Reading, Snapshot
from api.queries.cursors import BYTES, ID, CursorFormat, IdError, parse_id
from api.queries.pagination import Page, QueryListing, Relation, cut, page
from api.queries.records import NODE_SIGNATURES, node_signature
from api.queries.requests import ListNodeSignatures

_CURSORS = CursorFormat(("resource_id", ID), ("sig", BYTES))


def list_node_signatures(reading: Reading, request: ListNodeSignatures) -> Page:
    """List a resource's signatures. Raises `InvalidArgumentError`."""
    if not request.id:
        raise InvalidArgumentError(Reason.MISSING_RESOURCE_ID)
    window = request.pagination.window(_CURSORS)
    try:
        resource = parse_id(request.id)
    except IdError as error:
        inner = f"resourceID: {request.id}: {error}"
        raise InvalidArgumentError(Reason.NODE_SIGNATURES, inner) from None
    if window.cursor and window.cursor[0] != resource:
        raise InvalidArgumentError(Reason.INVALID_PAGINATION, "the cursor is of another resource")
    relation = reading.snapshot.once("node signatures", _relation)
    if relation is None:
        return Page()
    section = cut(QueryListing(reading, relation, (resource,)), window)
    return page(section, section.cursors(_CURSORS), node_signature)


def _relation(snapshot: Snapshot) -> Relation | None:
    table = snapshot.state("node_signatures")
    if table is None:
        return None
    columns = NODE_SIGNATURES.inner(table.columns)
    return Relation(
        f"select {columns} from {table.source} where resource_id = $1",  # noqa: S608 - ours
        keys=("resource_id", "sig"),
        shown=NODE_SIGNATURES.shown,
        bound=1,
        times=0,
    )
