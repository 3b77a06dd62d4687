"""The operations of the read API: what each is called, what it takes, who answers it, with what.

Routes, what is read from a request, `/openapi.json` and the methods of gRPC follow from this table
and from the `.proto` files, which have of each method what it is for, the message that it takes
and the one that it answers with.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from api.core.descriptors import CORE, TRADING_DATA, Request
from api.core.open_snapshots import Reading
from api.queries.liquidity import list_liquidity_provisions
from api.queries.network import (
    history_status,
    newest_segment,
    next_headers,
    segments_page,
    vega_time,
)
from api.queries.operation import Operation
from api.queries.oracle import list_oracle_data
from api.queries.orders import list_order_versions
from api.queries.pagination import Record
from api.queries.signatures import list_node_signatures
from api.queries.spam import get_spam_statistics
from api.queries.withdrawals import get_withdrawal, list_withdrawals


def _spam(path: str, operation_id: str = "") -> Operation:
    return Operation(
        "spam_statistics",
        path,
        f"{CORE}/GetSpamStatistics",
        get_spam_statistics,
        id=operation_id,
    )


def _newest_segment(reading: Reading, _request: Request) -> Record:
    newest = newest_segment(reading.snapshot)
    return newest, "" if newest is None else reading.snapshot.catalog.snapshot.chain_id


EXPORT = Operation(
    "export",
    "/api/v2/networkhistory/export",
    f"{TRADING_DATA}/ExportNetworkHistory",
    None,  # see `api.http.downloads` and `api.rpc.calls`
)
STREAM = Operation(
    "liquidity_provision_stream",
    "/api/v2/stream/liquidity-provisions",
    f"{TRADING_DATA}/ObserveLiquidityProvisions",
    None,  # see `api.http.streams` and `api.rpc.calls`
)
CALLS: Sequence[Operation] = (
    Operation(
        "order_versions",
        "/api/v2/order/versions/{orderId}",
        f"{TRADING_DATA}/ListOrderVersions",
        list_order_versions,
    ),
    Operation(
        "withdrawals",
        "/api/v2/withdrawals",
        f"{TRADING_DATA}/ListWithdrawals",
        list_withdrawals,
    ),
    Operation(
        "withdrawal",
        "/api/v2/withdrawal/{id}",
        f"{TRADING_DATA}/GetWithdrawal",
        lambda reading, request: (get_withdrawal(reading, request),),
    ),
    Operation(
        "liquidity_provisions",
        "/api/v2/liquidity/provisions",
        f"{TRADING_DATA}/ListLiquidityProvisions",
        list_liquidity_provisions,
    ),
    Operation(
        "oracle_data",
        "/api/v2/oracle/data",
        f"{TRADING_DATA}/ListOracleData",
        list_oracle_data,
    ),
    Operation(
        "node_signatures",
        "/api/v2/node/signatures",
        f"{TRADING_DATA}/ListNodeSignatures",
        list_node_signatures,
    ),
    # Where the specification's prefix puts it, and where the network's nodes have it.
    _spam("/api/v2/statistics/spam/{partyId}"),
    _spam("/statistics/spam/{partyId}", "getSpamStatisticsOfCore"),
    Operation(
        "segments",
        "/api/v2/networkhistory/segments",
        f"{TRADING_DATA}/ListAllNetworkHistorySegments",
        lambda reading, request: (segments_page(reading.snapshot, request),),
        headers=lambda reading, request: next_headers(reading.snapshot, request),
        is_kept=True,
        id="listNetworkHistorySegments",
    ),
    Operation(
        "newest_segment",
        "",
        f"{TRADING_DATA}/GetMostRecentNetworkHistorySegment",
        _newest_segment,
        is_kept=True,
    ),
    Operation(
        "history_status",
        "/api/v2/networkhistory",
        f"{TRADING_DATA}/GetNetworkHistoryStatus",
        lambda reading, _: history_status(reading.snapshot),
        is_kept=True,
    ),
    Operation(
        "bootstrap_peers",
        "/api/v2/networkhistory/bootstrap",
        f"{TRADING_DATA}/GetNetworkHistoryBootstrapPeers",
        ((),),
    ),
    Operation(
        "peer_addresses",
        "",
        f"{TRADING_DATA}/GetActiveNetworkHistoryPeerAddresses",
        ((),),
    ),
    Operation(
        "vega_time",
        "/api/v2/vega/time",
        f"{TRADING_DATA}/GetVegaTime",
        lambda reading, _: vega_time(reading.snapshot),
        is_kept=True,
    ),
    Operation(
        "info",
        "/api/v2/info",
        f"{TRADING_DATA}/Info",
        (f"v{version('strata')}", ""),  # what it was built from is not known
    ),
    Operation(
        "ping",
        "",
        f"{TRADING_DATA}/Ping",
        (),
    ),
)
"""Those with one answer; routes are tried in this order."""
