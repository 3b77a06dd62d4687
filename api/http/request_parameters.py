"""From query parameters to the requests of the operations (spec 4; decision 12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from api.http.parameters import (
    DATE_RANGE,
    PAGINATION,
    EnumParameter,
    Fields,
    Scalar,
    read_parameters,
)
from api.queries.pagination import Pagination
from api.queries.requests import (
    TABLES,
    ExportNetworkHistory,
    ListLiquidityProvisions,
    ListNodeSignatures,
    ListOracleData,
    ListOrderVersions,
    ListSegments,
    ListWithdrawals,
    ObserveLiquidityProvisions,
)

QueryPairs = Iterable[tuple[str, str]]
"""Names and values of query parameters, percent-decoded, in the order given."""

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
_SEGMENTS: Fields = {"to_block": Scalar.INT64}
_EXPORT: Fields = {
    "from_block": Scalar.INT64,
    "to_block": Scalar.INT64,
    "from": Scalar.TEXT,
    "to": Scalar.TEXT,
    "table": EnumParameter({f"TABLE_{name.upper()}": number for number, name in enumerate(TABLES)}),
}


def read_order_versions(order_id: str, query: QueryPairs) -> ListOrderVersions:
    """Read a request; like all of these, raises `MalformedParameterError`."""
    return ListOrderVersions(order_id, _pagination(read_parameters(query, _PAGED)))


def read_withdrawals(query: QueryPairs) -> ListWithdrawals:
    """Read a request."""
    values = read_parameters(query, _WITHDRAWALS)
    times = values.get("date_range", {})
    return ListWithdrawals(
        values.get("party_id", ""),
        times.get("start_timestamp"),
        times.get("end_timestamp"),
        _pagination(values),
    )


def read_oracle_data(query: QueryPairs) -> ListOracleData:
    """Read a request."""
    values = read_parameters(query, _ORACLE_DATA)
    return ListOracleData(values.get("oracle_spec_id", ""), _pagination(values))


def read_node_signatures(query: QueryPairs) -> ListNodeSignatures:
    """Read a request."""
    values = read_parameters(query, _SIGNATURES)
    return ListNodeSignatures(values.get("id", ""), _pagination(values))


def read_liquidity_provisions(query: QueryPairs) -> ListLiquidityProvisions:
    """Read a request."""
    values = read_parameters(query, _PROVISIONS)
    pagination = _pagination(values)
    fields = {name: values[name] for name in _PROVISIONS if name in values and name != "pagination"}
    return ListLiquidityProvisions(**fields, pagination=pagination)


def read_observed_provisions(query: QueryPairs) -> ObserveLiquidityProvisions:
    """Read a request."""
    return ObserveLiquidityProvisions(**read_parameters(query, _OBSERVED))


def read_segments(query: QueryPairs) -> ListSegments:
    """Read a request."""
    return ListSegments(**read_parameters(query, _SEGMENTS))


def read_export(query: QueryPairs) -> ExportNetworkHistory:
    """Read a request. Raises `MalformedParameterError`."""
    values = read_parameters(query, _EXPORT)
    return ExportNetworkHistory(
        values.get("from_block", 0),
        values.get("to_block", 0),
        values.get("table", 0),
        values.get("from", ""),
        values.get("to", ""),
    )


def _pagination(values: Mapping[str, Any]) -> Pagination:
    return Pagination(**values.get("pagination", {}))
