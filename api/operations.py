"""The operations of the read API: what each is called, what it takes, who answers it, with what.

Routes, what is read from a request, `/openapi.json` and the methods of gRPC follow from this table
and from the `.proto` files, which have of each method what it is for, the message that it takes
and the one that it answers with.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from api.core.descriptors import CORE, TRADING_DATA, service
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
from api.queries.signatures import list_node_signatures
from api.queries.spam import get_spam_statistics
from api.queries.withdrawals import get_withdrawal, list_withdrawals

_METHODS = service(TRADING_DATA).methods_by_name
_SPAM = service(CORE).methods_by_name["GetSpamStatistics"]


EXPORT = Operation(
    "export",
    "/api/v2/networkhistory/export",
    _METHODS["ExportNetworkHistory"],
    None,  # see `api.http.downloads` and `api.rpc.calls`
)
STREAM = Operation(
    "liquidity_provision_stream",
    "/api/v2/stream/liquidity-provisions",
    _METHODS["ObserveLiquidityProvisions"],
    None,  # see `api.http.streams` and `api.rpc.calls`
)
CALLS: Sequence[Operation] = (
    Operation(
        "order_versions",
        "/api/v2/order/versions/{orderId}",
        _METHODS["ListOrderVersions"],
        list_order_versions,
    ),
    Operation("withdrawals", "/api/v2/withdrawals", _METHODS["ListWithdrawals"], list_withdrawals),
    Operation("withdrawal", "/api/v2/withdrawal/{id}", _METHODS["GetWithdrawal"], get_withdrawal),
    Operation(
        "liquidity_provisions",
        "/api/v2/liquidity/provisions",
        _METHODS["ListLiquidityProvisions"],
        list_liquidity_provisions,
    ),
    Operation("oracle_data", "/api/v2/oracle/data", _METHODS["ListOracleData"], list_oracle_data),
    Operation(
        "node_signatures",
        "/api/v2/node/signatures",
        _METHODS["ListNodeSignatures"],
        list_node_signatures,
    ),
    # Where the specification's prefix puts it, and where the network's nodes have it.
    Operation("spam_statistics", "/api/v2/statistics/spam/{partyId}", _SPAM, get_spam_statistics),
    Operation(
        "spam_statistics",
        "/statistics/spam/{partyId}",
        _SPAM,
        get_spam_statistics,
        id="getSpamStatisticsOfCore",
    ),
    Operation(
        "segments",
        "/api/v2/networkhistory/segments",
        _METHODS["ListAllNetworkHistorySegments"],
        segments_page,
        headers=next_headers,
        is_kept=True,
        id="listNetworkHistorySegments",
    ),
    Operation(
        "newest_segment",
        "",
        _METHODS["GetMostRecentNetworkHistorySegment"],
        newest_segment,
        is_kept=True,
    ),
    Operation(
        "history_status",
        "/api/v2/networkhistory",
        _METHODS["GetNetworkHistoryStatus"],
        history_status,
        is_kept=True,
    ),
    Operation(
        "bootstrap_peers",
        "/api/v2/networkhistory/bootstrap",
        _METHODS["GetNetworkHistoryBootstrapPeers"],
        ((),),
    ),
    Operation("peer_addresses", "", _METHODS["GetActiveNetworkHistoryPeerAddresses"], ((),)),
    Operation("vega_time", "/api/v2/vega/time", _METHODS["GetVegaTime"], vega_time, is_kept=True),
    Operation(
        "info",
        "/api/v2/info",
        _METHODS["Info"],
        (f"v{version('strata')}", ""),  # what it was built from is not known
    ),
    Operation("ping", "", _METHODS["Ping"], ()),
)
"""Those with one answer; routes are tried in this order."""
