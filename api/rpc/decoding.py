"""Requests from messages of the wire; the same values as REST reads from its parameters."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from api.core.errors import MalformedParameterError
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


def order_versions(given: Given) -> ListOrderVersions:
    """Read a request."""
    return ListOrderVersions(given.order_id, _pagination(given))


def withdrawals(given: Given) -> ListWithdrawals:
    """Read a request."""
    times = given.date_range
    return ListWithdrawals(
        given.party_id,
        _optional(times, "start_timestamp"),
        _optional(times, "end_timestamp"),
        _pagination(given),
    )


def withdrawal(given: Given) -> GetWithdrawal:
    """Read a request."""
    return GetWithdrawal(given.id)


def oracle_data(given: Given) -> ListOracleData:
    """Read a request."""
    return ListOracleData(given.oracle_spec_id, _pagination(given))


def node_signatures(given: Given) -> ListNodeSignatures:
    """Read a request."""
    return ListNodeSignatures(given.id, _pagination(given))


def liquidity_provisions(given: Given) -> ListLiquidityProvisions:
    """Read a request."""
    return ListLiquidityProvisions(
        given.market_id, given.party_id, given.reference, given.live, _pagination(given)
    )


def observed_provisions(given: Given, *, snapshot: bool) -> ObserveLiquidityProvisions:
    """Read a request."""
    market, party = _optional(given, "market_id"), _optional(given, "party_id")
    return ObserveLiquidityProvisions(market, party, snapshot)


def spam_statistics(given: Given) -> GetSpamStatistics:
    """Read a request."""
    return GetSpamStatistics(given.party_id)


def segments(to_block: str) -> ListSegments:
    """Read what the metadata says. Raises `MalformedParameterError` for what is no block."""
    if not to_block:
        return ListSegments()
    if not (to_block.isascii() and to_block.isdigit() and len(to_block) <= _MOST_DIGITS):
        raise MalformedParameterError(f"{TO_BLOCK} is {to_block!r:.60}, not a block")
    return ListSegments(int(to_block))


def export(given: Given) -> ExportNetworkHistory:
    """Read a request. Raises `MalformedParameterError` for a table that there is not."""
    if not 0 <= given.table < len(TABLES):
        message = f'parsing field "table": "{given.table}" is not a valid value'
        raise MalformedParameterError(message)
    return ExportNetworkHistory(given.from_block, given.to_block, given.table)


def _pagination(given: Given) -> Pagination:
    asked = given.pagination
    return Pagination(
        _optional(asked, "first"),
        _optional(asked, "after"),
        _optional(asked, "last"),
        _optional(asked, "before"),
        _optional(asked, "newest_first"),
    )


def _optional(given: Given, name: str) -> Any:  # noqa: ANN401 - of the field's type
    return getattr(given, name) if given.HasField(name) else None
