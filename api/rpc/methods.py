"""The unary methods: how each request is read and answered. The paths of REST, by another name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message as Wire

from api.core.descriptors import CORE, TRADING_DATA, Message, message_class, service
from api.core.query_runner import Headers, next_headers
from api.core.snapshots import Reading, Snapshot
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
    newest_segment,
    older_segments,
    segments_page,
    vega_time,
)
from api.queries.oracle import list_oracle_data
from api.queries.orders import list_order_versions
from api.queries.pagination import Page
from api.queries.requests import ListSegments
from api.queries.signatures import list_node_signatures
from api.queries.spam import get_spam_statistics
from api.queries.withdrawals import get_withdrawal, list_withdrawals
from api.rpc import decoding as requests
from api.rpc.decoding import Given
from api.rpc.writers import Arguments, encoded, page_arguments, record_arguments, records_arguments

_Request = TypeVar("_Request")
Metadata = Callable[[str], str]
"""What a call brings besides its message, by name; nothing where it brings none."""


@dataclass(frozen=True, slots=True)
class Method(Generic[_Request]):
    """What is asked at `path`; `name` is that of the operation in REST, log and counters.

    Bytes in the place of `answer` are always the same, whatever is loaded, or nothing.
    """

    name: str
    path: str
    request_type: type[Wire]
    read: Callable[[Given, Metadata], _Request]
    answer: Callable[[Reading, _Request], bytes] | bytes
    headers: Callable[[Reading, _Request], Headers] = lambda _reading, _request: ()


def _method(
    name: str,
    path: str,
    read: Callable[[Given], _Request],
    arguments: Callable[[Reading, _Request], Arguments],
) -> Method[_Request]:
    """A method whose answer is the message of these arguments."""
    request_type, answer_type = _declared(path)

    def answer(reading: Reading, request: _Request) -> bytes:
        return encoded(answer_type, arguments(reading, request))

    return Method(name, f"/{path}", request_type, lambda message, _: read(message), answer)


def _list(
    name: str,
    method: str,
    read: Callable[[Given], _Request],
    ask: Callable[[Reading, _Request], Page],
    key: str,
    message: Message,
) -> Method[_Request]:
    """A method that answers with a page of records under a key."""

    def arguments(reading: Reading, request: _Request) -> Arguments:
        return {key: page_arguments(message, ask(reading, request))}

    return _method(name, f"{TRADING_DATA}/{method}", read, arguments)


def _get(name: str, method: str, arguments: Callable[[Snapshot], Arguments]) -> Method[None]:
    """A method without parameters, answered once for each generation."""
    path = f"{TRADING_DATA}/{method}"
    request_type, answer_type = _declared(path)

    def answer(reading: Reading, _: None) -> bytes:
        return reading.snapshot.once(
            path, lambda snapshot: encoded(answer_type, arguments(snapshot))
        )

    return Method(name, f"/{path}", request_type, _nothing, answer)


def _fixed(name: str, method: str, arguments: Arguments) -> Method[None]:
    """A method without parameters whose answer is always the same."""
    path = f"{TRADING_DATA}/{method}"
    request_type, answer_type = _declared(path)
    return Method(name, f"/{path}", request_type, _nothing, encoded(answer_type, arguments))


def _segments() -> Method[ListSegments]:
    """The method that lists segments: a page, made once for each generation where it is the first.

    The message that is asked has no field for a page: the metadata says which.
    """
    path = f"{TRADING_DATA}/ListAllNetworkHistorySegments"
    request_type, answer_type = _declared(path)

    def message(snapshot: Snapshot, request: ListSegments) -> bytes:
        page = segments_page(snapshot, request)
        return encoded(answer_type, {"segments": records_arguments(SEGMENT, page)})

    def answer(reading: Reading, request: ListSegments) -> bytes:
        if request != ListSegments():
            return message(reading.snapshot, request)
        return reading.snapshot.once(path, lambda snapshot: message(snapshot, request))

    def following(reading: Reading, request: ListSegments) -> Headers:
        return next_headers(older_segments(reading.snapshot, request))

    def read(_request: Given, metadata: Metadata) -> ListSegments:
        return requests.segments(metadata(requests.TO_BLOCK))

    return Method("segments", f"/{path}", request_type, read, answer, following)


def _nothing(_request: Given, _metadata: Metadata) -> None:
    """A request without parameters."""


def _declared(path: str) -> tuple[type[Wire], type[Wire]]:
    """The messages of a method: what is asked, and what is answered."""
    service_name, _, method_name = path.partition("/")
    declared = service(service_name).methods_by_name[method_name]
    return message_class(declared.input_type.full_name), message_class(
        declared.output_type.full_name
    )


def _newest_segment(snapshot: Snapshot) -> Arguments:
    newest = newest_segment(snapshot)
    if newest is None:
        return {}
    segment = record_arguments(SEGMENT, newest)
    return {"segment": segment, "swarm_key_seed": snapshot.catalog.chain_id}


METHODS: Sequence[Method[Any]] = (
    _list(
        "oracle_data",
        "ListOracleData",
        requests.oracle_data,
        list_oracle_data,
        "oracle_data",
        ORACLE_DATA,
    ),
    _list(
        "node_signatures",
        "ListNodeSignatures",
        requests.node_signatures,
        list_node_signatures,
        "signatures",
        NODE_SIGNATURE,
    ),
    _list(
        "order_versions",
        "ListOrderVersions",
        requests.order_versions,
        list_order_versions,
        "orders",
        ORDER,
    ),
    _list(
        "withdrawals",
        "ListWithdrawals",
        requests.withdrawals,
        list_withdrawals,
        "withdrawals",
        WITHDRAWAL,
    ),
    _list(
        "liquidity_provisions",
        "ListLiquidityProvisions",
        requests.liquidity_provisions,
        list_liquidity_provisions,
        "liquidity_provisions",
        LIQUIDITY_PROVISION,
    ),
    _method(
        "withdrawal",
        f"{TRADING_DATA}/GetWithdrawal",
        requests.withdrawal,
        lambda reading, request: {
            "withdrawal": record_arguments(WITHDRAWAL, get_withdrawal(reading, request))
        },
    ),
    _method(
        "spam_statistics",
        f"{CORE}/GetSpamStatistics",
        requests.spam_statistics,
        lambda reading, request: record_arguments(
            SPAM_RESPONSE, get_spam_statistics(reading, request)
        ),
    ),
    _segments(),
    _get("newest_segment", "GetMostRecentNetworkHistorySegment", _newest_segment),
    # There is no peer-to-peer store here: no address, no key, no peers.
    _get(
        "history_status",
        "GetNetworkHistoryStatus",
        lambda snapshot: record_arguments(HISTORY_STATUS, history_status(snapshot)),
    ),
    _fixed(
        "bootstrap_peers",
        "GetNetworkHistoryBootstrapPeers",
        record_arguments(BOOTSTRAP_PEERS, bootstrap_peers()),
    ),
    _fixed("peer_addresses", "GetActiveNetworkHistoryPeerAddresses", {}),
    _get(
        "vega_time",
        "GetVegaTime",
        lambda snapshot: record_arguments(VEGA_TIME, vega_time(snapshot)),
    ),
    _fixed("info", "Info", record_arguments(INFO, info())),
    _fixed("ping", "Ping", {}),
)
