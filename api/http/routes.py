"""The calls of spec section 4 and decision 11: how each request is read and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from api.core.descriptors import Message
from api.core.query_runner import next_headers
from api.core.snapshots import Reading, Snapshot
from api.http.calls import Operation
from api.http.request_parameters import (
    QueryPairs,
    read_liquidity_provisions,
    read_node_signatures,
    read_oracle_data,
    read_order_versions,
    read_segments,
    read_withdrawals,
)
from api.queries.liquidity import list_liquidity_provisions
from api.queries.messages import (
    BOOTSTRAP_PEERS,
    HISTORY_STATUS,
    INFO,
    LIQUIDITY_PROVISION,
    NODE_SIGNATURE,
    ORACLE_DATA,
    ORDER,
    SEGMENT,
    SPAM_RESPONSE,
    VEGA_TIME,
    WITHDRAWAL,
)
from api.queries.network import (
    bootstrap_peers,
    history_status,
    info,
    older_segments,
    segments_page,
    vega_time,
)
from api.queries.oracle import list_oracle_data
from api.queries.orders import list_order_versions
from api.queries.pagination import Page
from api.queries.protojson import page_json, record_json, records_json
from api.queries.requests import GetSpamStatistics, GetWithdrawal, ListSegments
from api.queries.signatures import list_node_signatures
from api.queries.spam import get_spam_statistics
from api.queries.withdrawals import get_withdrawal, list_withdrawals

_Request = TypeVar("_Request")
Path = Mapping[str, str]


def _list(
    name: str,
    path: str,
    read: Callable[[Path, QueryPairs], _Request],
    ask: Callable[[Reading, _Request], Page],
    key: str,
    message: Message,
) -> Operation[_Request]:
    """An operation that answers with a page of records under a key."""

    def answer(reading: Reading, request: _Request) -> bytes:
        return page_json(key, message, ask(reading, request))

    return Operation(name, path, read, answer)


def _withdrawal(reading: Reading, request: GetWithdrawal) -> bytes:
    record = record_json(WITHDRAWAL, get_withdrawal(reading, request))
    return f'{{"withdrawal":{record}}}'.encode()


def _spam(path: str) -> Operation[GetSpamStatistics]:
    return Operation(
        "spam_statistics",
        path,
        lambda parameters, _: GetSpamStatistics(parameters.get("partyId", "")),
        lambda reading, request: record_json(
            SPAM_RESPONSE, get_spam_statistics(reading, request)
        ).encode(),
    )


def _segments(reading: Reading, request: ListSegments) -> bytes:
    if request != ListSegments():
        return _segments_json(reading.snapshot, request)
    # What most ask for are megabytes: written once for each generation.
    return reading.snapshot.once(
        "segments answer", lambda snapshot: _segments_json(snapshot, request)
    )


def _segments_json(snapshot: Snapshot, request: ListSegments) -> bytes:
    return f'{{"segments":{records_json(SEGMENT, segments_page(snapshot, request))}}}'.encode()


OPERATIONS: Sequence[Operation[Any]] = (
    _list(
        "oracle_data",
        "/api/v2/oracle/data",
        lambda _, query: read_oracle_data(query),
        list_oracle_data,
        "oracleData",
        ORACLE_DATA,
    ),
    _list(
        "node_signatures",
        "/api/v2/node/signatures",
        lambda _, query: read_node_signatures(query),
        list_node_signatures,
        "signatures",
        NODE_SIGNATURE,
    ),
    _list(
        "order_versions",
        "/api/v2/order/versions/{orderId}",
        lambda path, query: read_order_versions(path.get("orderId", ""), query),
        list_order_versions,
        "orders",
        ORDER,
    ),
    _list(
        "withdrawals",
        "/api/v2/withdrawals",
        lambda _, query: read_withdrawals(query),
        list_withdrawals,
        "withdrawals",
        WITHDRAWAL,
    ),
    _list(
        "liquidity_provisions",
        "/api/v2/liquidity/provisions",
        lambda _, query: read_liquidity_provisions(query),
        list_liquidity_provisions,
        "liquidityProvisions",
        LIQUIDITY_PROVISION,
    ),
    Operation(
        "withdrawal",
        "/api/v2/withdrawal/{id}",
        lambda path, _: GetWithdrawal(path.get("id", "")),
        _withdrawal,
    ),
    # Where the specification's prefix puts it, and where the network's nodes have it.
    _spam("/api/v2/statistics/spam/{partyId}"),
    _spam("/statistics/spam/{partyId}"),
    Operation(
        "segments",
        "/api/v2/networkhistory/segments",
        lambda _, query: read_segments(query),
        _segments,
        lambda reading, request: next_headers(older_segments(reading.snapshot, request)),
    ),
    Operation(
        "history_status",
        "/api/v2/networkhistory",
        lambda _path, _query: None,
        lambda reading, _: record_json(HISTORY_STATUS, history_status(reading.snapshot)).encode(),
    ),
    Operation(
        "bootstrap_peers",
        "/api/v2/networkhistory/bootstrap",
        lambda _path, _query: None,
        record_json(BOOTSTRAP_PEERS, bootstrap_peers()).encode(),
    ),
    Operation(
        "vega_time",
        "/api/v2/vega/time",
        lambda _path, _query: None,
        lambda reading, _: record_json(VEGA_TIME, vega_time(reading.snapshot)).encode(),
    ),
    Operation(
        "info",
        "/api/v2/info",
        lambda _path, _query: None,
        record_json(INFO, info()).encode(),
    ),
)
