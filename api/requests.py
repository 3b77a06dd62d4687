"""The requests of the operations, as both shells make them: values of the right types, unjudged.

REST reads them from query and path parameters, gRPC from its messages. What cannot be right is
refused by the operation that gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from api.pagination import Pagination
from api.parameters import DATE_RANGE, PAGINATION, Fields, Scalar, read_parameters

Query = Iterable[tuple[str, str]]
"""Names and values of query parameters, percent-decoded, in the order given."""


@dataclass(frozen=True, slots=True)
class ListOrderVersions:
    """The versions of one order (spec 4.5)."""

    order_id: str
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ListWithdrawals:
    """Withdrawals (spec 4.7); an empty party is all parties, times are Unix nanoseconds."""

    party_id: str = ""
    start: int | None = None
    end: int | None = None
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class GetWithdrawal:
    """One withdrawal (decision 11)."""

    id: str


@dataclass(frozen=True, slots=True)
class ListOracleData:
    """Oracle data (spec 4.2); an empty spec id is none."""

    oracle_spec_id: str = ""
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ListNodeSignatures:
    """The signatures of a resource (spec 4.3)."""

    id: str = ""
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ListLiquidityProvisions:
    """Liquidity provisions of a market or a party (decision 11); empty texts are not given."""

    market_id: str = ""
    party_id: str = ""
    reference: str = ""
    live: bool = False
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ObserveLiquidityProvisions:
    """The stream of liquidity provisions (spec 4.4); None: not given, which is any."""

    market_id: str | None = None
    party_id: str | None = None
    snapshot: bool = True


@dataclass(frozen=True, slots=True)
class GetSpamStatistics:
    """One party's spam statistics (spec 4.6)."""

    party_id: str


_PAGED: Fields = MappingProxyType({"pagination": PAGINATION})
_WITHDRAWALS: Fields = {**_PAGED, "party_id": Scalar.TEXT, "date_range": DATE_RANGE}
_ORACLE_DATA: Fields = {**_PAGED, "oracle_spec_id": Scalar.TEXT}
_SIGNATURES: Fields = {**_PAGED, "id": Scalar.TEXT}
_OBSERVED: Fields = {"market_id": Scalar.TEXT, "party_id": Scalar.TEXT, "snapshot": Scalar.BOOLEAN}
_PROVISIONS: Fields = {
    **_PAGED,
    "market_id": Scalar.TEXT,
    "party_id": Scalar.TEXT,
    "reference": Scalar.TEXT,
    "live": Scalar.BOOLEAN,
}


def read_order_versions(order_id: str, query: Query) -> ListOrderVersions:
    """Read a request; like all of these, raises `MalformedParameterError`."""
    return ListOrderVersions(order_id, _pagination(read_parameters(query, _PAGED)))


def read_withdrawals(query: Query) -> ListWithdrawals:
    """Read a request."""
    read = read_parameters(query, _WITHDRAWALS)
    times = read.get("date_range", {})
    return ListWithdrawals(
        read.get("party_id", ""),
        times.get("start_timestamp"),
        times.get("end_timestamp"),
        _pagination(read),
    )


def read_oracle_data(query: Query) -> ListOracleData:
    """Read a request."""
    read = read_parameters(query, _ORACLE_DATA)
    return ListOracleData(read.get("oracle_spec_id", ""), _pagination(read))


def read_node_signatures(query: Query) -> ListNodeSignatures:
    """Read a request."""
    read = read_parameters(query, _SIGNATURES)
    return ListNodeSignatures(read.get("id", ""), _pagination(read))


def read_liquidity_provisions(query: Query) -> ListLiquidityProvisions:
    """Read a request."""
    read = read_parameters(query, _PROVISIONS)
    pagination = _pagination(read)
    given = {name: read[name] for name in _PROVISIONS if name in read and name != "pagination"}
    return ListLiquidityProvisions(**given, pagination=pagination)


def read_observed_provisions(query: Query) -> ObserveLiquidityProvisions:
    """Read a request."""
    return ObserveLiquidityProvisions(**read_parameters(query, _OBSERVED))


def _pagination(read: Mapping[str, Any]) -> Pagination:
    return Pagination(**read.get("pagination", {}))
