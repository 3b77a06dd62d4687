"""The OpenAPI 3.1 description of what the server answers; a test holds the server to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version

from api.core.descriptors import Message
from api.http.openapi_elements import (
    HEX,
    HEX64,
    INT64,
    PAGINATION,
    TEXT,
    TRUTH,
    Parameter,
    failure,
    get,
    json_answer,
    success,
    text_answer,
)
from api.http.openapi_schemas import (
    Schema,
    an_object,
    component_schemas,
    listed,
    page_schema,
    reference,
)
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
from transforms.tables.registry import HISTORY_TABLES

_EXPORT = "/api/v2/networkhistory/export"
_STREAM = "/api/v2/stream/liquidity-provisions"
_MARKET = Parameter("marketId", HEX, "Only provisions for this market.")
_PARTY = Parameter("partyId", HEX, "Only provisions of this party.")
_TABLES = ["TABLE_" + table.upper() for table in HISTORY_TABLES]


def document() -> bytes:
    """The description as JSON."""
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Strata",
                "version": version("strata"),
                "description": "Network history: exports, the published archive, and queries over "
                "the same data. 64-bit numbers are text in JSON, times are Unix nanoseconds.",
            },
            "servers": [{"url": "."}],
            "paths": _paths(),
            "components": {
                "schemas": component_schemas(),
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{}, {"token": []}],
        },
        separators=(",", ":"),
    ).encode()


def _paths() -> Schema:
    return {**_history(), **_peers(), **_lists(), **_others(), **_operations()}


def _history() -> Schema:
    export = (
        Parameter("fromBlock", INT64, "First block of a segment."),
        Parameter("toBlock", INT64, "Last block of a segment, inclusive."),
        Parameter("from", TEXT, "Instead of fromBlock: a date, a time or a block in a segment."),
        Parameter("to", TEXT, "Instead of toBlock, inclusive: the range snaps to whole segments."),
        Parameter("table", {"type": "string", "enum": _TABLES}, "What to export.", required=True),
    )
    zipped = {
        "application/zip": {"schema": {"type": "string", "contentMediaType": "application/zip"}}
    }
    answers = {
        "200": {
            "description": "The ZIP; Range, If-Range and If-None-Match work. Repr-Digest has its "
            "SHA-256 where that is known, and always for HEAD with Want-Repr-Digest: sha-256=1.",
            "content": zipped,
        },
        "206": {"description": "The range asked for.", "content": zipped},
        "304": {"description": "The client has it already."},
        "412": failure("The ZIP is another one by now."),
        "416": failure("No such range."),
    }
    segments = an_object({"segments": listed(reference(SEGMENT))})
    return {
        _EXPORT: get(
            "exportNetworkHistory",
            "Download one table over a range of blocks",
            export,
            answers,
            enveloped=True,
        ),
        "/api/v2/networkhistory/segments": get(
            "listNetworkHistorySegments",
            "List the segments that are loaded, newest first, at most 10000; "
            "where older ones follow, the header x-next-to-block says with which toBlock",
            (Parameter("toBlock", INT64, "Only segments that end at this block or before."),),
            success(segments),
        ),
    }


def _peers() -> Schema:
    return {
        "/api/v2/networkhistory": get(
            "getNetworkHistoryStatus",
            "Get the chain; address, key and peers are empty, as there is no peer-to-peer store",
            (),
            success(reference(HISTORY_STATUS)),
        ),
        "/api/v2/networkhistory/bootstrap": get(
            "getNetworkHistoryBootstrapPeers",
            "Get the peers to begin with: none",
            (),
            success(reference(BOOTSTRAP_PEERS)),
        ),
    }


def _lists() -> Schema:
    order = Parameter("orderId", HEX64, "The order.", required=True, place="path")
    spec = Parameter("oracleSpecId", HEX, "Only data that matched this oracle spec.")
    resource = Parameter("id", HEX, "The resource that was signed.", required=True)
    owner = Parameter("partyId", HEX64, "Only this party's.")
    dates = (
        Parameter("dateRange.startTimestamp", INT64, "Updated at or after, Unix nanoseconds."),
        Parameter("dateRange.endTimestamp", INT64, "Updated before, Unix nanoseconds."),
    )
    reference_ = Parameter("reference", TEXT, "Only provisions with this reference.")
    live = Parameter("live", TRUTH, "Only provisions that are live now.")
    lists: tuple[tuple[str, str, str, Message, str, Sequence[Parameter]], ...] = (
        ("/api/v2/oracle/data", "listOracleData", "oracleData", ORACLE_DATA,
         "List oracle data", (spec,)),
        ("/api/v2/node/signatures", "listNodeSignatures", "signatures", NODE_SIGNATURE,
         "List node signatures of a resource", (resource,)),
        ("/api/v2/order/versions/{orderId}", "listOrderVersions", "orders", ORDER,
         "List the versions of an order", (order,)),
        ("/api/v2/withdrawals", "listWithdrawals", "withdrawals", WITHDRAWAL,
         "List withdrawals", (owner, *dates)),
        ("/api/v2/liquidity/provisions", "listLiquidityProvisions", "liquidityProvisions",
         LIQUIDITY_PROVISION, "List liquidity provisions", (_MARKET, _PARTY, reference_, live)),
    )  # fmt: skip
    return {
        path: get(
            name, title, (*parameters, *PAGINATION), success(an_object({key: page_schema(message)}))
        )
        for path, name, key, message, title, parameters in lists
    }


def _others() -> Schema:
    withdrawal = Parameter("id", HEX64, "The withdrawal.", required=True, place="path")
    party = Parameter("partyId", HEX64, "The party.", required=True, place="path")
    spam = (
        "Get the spam statistics of a party",
        (party,),
        success(reference(SPAM_RESPONSE)),
    )
    snapshot = Parameter("snapshot", {**TRUTH, "default": True}, "Present ones first.")
    provisions = an_object({"liquidityProvisions": listed(reference(LIQUIDITY_PROVISION))})
    return {
        "/api/v2/withdrawal/{id}": get(
            "getWithdrawal",
            "Get one withdrawal",
            (withdrawal,),
            success(an_object({"withdrawal": reference(WITHDRAWAL)})),
        ),
        "/api/v2/statistics/spam/{partyId}": get("getSpamStatistics", *spam),
        "/statistics/spam/{partyId}": get("getSpamStatisticsOfCore", *spam),
        _STREAM: get(
            "observeLiquidityProvisions",
            "Stream liquidity provisions: those present, then each that changes, a JSON object a "
            "line; a WebSocket on the same path gets a message for each",
            (_MARKET, _PARTY, snapshot),
            {"200": json_answer("A line", an_object({"result": provisions}))},
            enveloped=True,
        ),
        "/api/v2/vega/time": get(
            "getVegaTime",
            "Get the time of the newest loaded block",
            (),
            success(reference(VEGA_TIME)),
        ),
        "/api/v2/info": get("info", "Get the version of the server", (), success(reference(INFO))),
    }


def _operations() -> Schema:
    state = {"type": "object", "properties": {"ready": TRUTH}, "required": ["ready"]}
    ready = {
        "200": json_answer("Ready.", state),
        "503": json_answer("Not ready.", state),
    }
    return {
        "/health": get("health", "Whether the process lives", (), text_answer("text/plain")),
        "/ready": get("ready", "Whether data is served, and how old", (), ready),
        "/metrics": get("metrics", "Counters for Prometheus", (), text_answer("text/plain")),
    }
