"""Requests from messages of the wire; the same values as REST reads from its parameters."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from api.core.api_errors import MalformedParameterError
from api.queries.pagination import Pagination
from api.queries.requests import (
    TABLES,
    ExportNetworkHistory,
    GetSpamStatistics,
    GetWithdrawal,
    ListLiquidityProvisions,
    ListNodeSignatures,
    ListOracleData,
    ListOrderVersions,
    ListSegments,
    ListWithdrawals,
    ObserveLiquidityProvisions,
)

TO_BLOCK = "x-to-block"
"""The metadata that says up to which block segments are listed."""

_MOST_DIGITS = 18
Given = Any
"""A message of the wire: its fields are known to the `.proto` files only."""


def parse(wire: type[Wire], data: bytes) -> Given:
    """The message that a client sent. Raises `MalformedParameterError`."""
    try:
        return wire.FromString(data)
    except DecodeError:
        name = wire.DESCRIPTOR.full_name
        raise MalformedParameterError(f"the request is no {name}") from None


def order_versions(request: Given) -> ListOrderVersions:
    """Read a request."""
    return ListOrderVersions(request.order_id, _pagination(request))


def withdrawals(request: Given) -> ListWithdrawals:
    """Read a request."""
    times = request.date_range
    return ListWithdrawals(
        request.party_id,
        _optional(times, "start_timestamp"),
        _optional(times, "end_timestamp"),
        _pagination(request),
    )


def withdrawal(request: Given) -> GetWithdrawal:
    """Read a request."""
    return GetWithdrawal(request.id)


def oracle_data(request: Given) -> ListOracleData:
    """Read a request."""
    return ListOracleData(request.oracle_spec_id, _pagination(request))


def node_signatures(request: Given) -> ListNodeSignatures:
    """Read a request."""
    return ListNodeSignatures(request.id, _pagination(request))


def liquidity_provisions(request: Given) -> ListLiquidityProvisions:
    """Read a request."""
    return ListLiquidityProvisions(
        request.market_id, request.party_id, request.reference, request.live, _pagination(request)
    )


def observed_provisions(request: Given, *, snapshot: bool) -> ObserveLiquidityProvisions:
    """Read a request."""
    market, party = _optional(request, "market_id"), _optional(request, "party_id")
    return ObserveLiquidityProvisions(market, party, snapshot)


def spam_statistics(request: Given) -> GetSpamStatistics:
    """Read a request."""
    return GetSpamStatistics(request.party_id)


def segments(to_block: str) -> ListSegments:
    """Read what the metadata says. Raises `MalformedParameterError` for what is no block."""
    if not to_block:
        return ListSegments()
    if not (to_block.isascii() and to_block.isdigit() and len(to_block) <= _MOST_DIGITS):
        raise MalformedParameterError(f"{TO_BLOCK} is {to_block!r:.60}, not a block")
    return ListSegments(int(to_block))


def export(request: Given) -> ExportNetworkHistory:
    """Read a request. Raises `MalformedParameterError` for a table that there is not."""
    if not 0 <= request.table < len(TABLES):
        message = f'parsing field "table": "{request.table}" is not a valid value'
        raise MalformedParameterError(message)
    return ExportNetworkHistory(request.from_block, request.to_block, request.table)


def _pagination(request: Given) -> Pagination:
    pagination = request.pagination
    return Pagination(
        _optional(pagination, "first"),
        _optional(pagination, "after"),
        _optional(pagination, "last"),
        _optional(pagination, "before"),
        _optional(pagination, "newest_first"),
    )


def _optional(message: Given, name: str) -> Any:  # noqa: ANN401 - of the field's type
    return getattr(message, name) if message.HasField(name) else None
