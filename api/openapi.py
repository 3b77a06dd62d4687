"""The OpenAPI 3.1 description of what the server answers; a test holds the server to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from api.messages import (
    INFO,
    LIQUIDITY_PROVISION,
    NODE_SIGNATURE,
    ORACLE_DATA,
    ORDER,
    SEGMENT,
    SPAM_RESPONSE,
    VEGA_TIME,
    WITHDRAWAL,
    Message,
)
from api.openapi_schemas import (
    Schema,
    an_object,
    component_schemas,
    error_reference,
    listed,
    page_schema,
    reference,
)
from transforms.registry import HISTORY_TABLES

_EXPORT = "/api/v2/networkhistory/export"
_STREAM = "/api/v2/stream/liquidity-provisions"
_ERRORS = {
    "400": "The request cannot be right; `details` says why.",
    "404": "There is no such thing.",
    "429": "Too many requests from this client, or streams.",
    "500": "Something failed; the answer's X-Request-Id is in the log.",
    "503": "Too busy: try again after Retry-After seconds.",
    "504": "The answer took longer than it may.",
}
_BLOCK_HEADERS = {
    name: {"description": meaning, "schema": {"type": "string"}}
    for name, meaning in (
        ("X-Block-Height", "The newest loaded block."),
        ("X-Block-Timestamp", "Its time in Unix nanoseconds."),
    )
}


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    schema: Schema
    meaning: str
    required: bool = False
    place: str = "query"

    def described(self) -> Schema:
        return {
            "name": self.name,
            "in": self.place,
            "required": self.required,
            "description": self.meaning,
            "schema": self.schema,
        }


_INT64 = {"type": "integer", "format": "int64"}
_COUNT = {"type": "integer", "format": "int32", "minimum": 1, "maximum": 5000}
_TEXT = {"type": "string"}
_HEX = {"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}
_HEX64 = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_PAGINATION = (
    _Parameter("pagination.first", _COUNT, "Records after the cursor, or from the start."),
    _Parameter("pagination.after", _TEXT, "Cursor of the last record of the page before."),
    _Parameter("pagination.last", _COUNT, "Records before the cursor, or from the end."),
    _Parameter("pagination.before", _TEXT, "Cursor of the first record of the page after."),
    _Parameter("pagination.newestFirst", {"type": "boolean", "default": True}, "Newest first."),
)
_MARKET = _Parameter("marketId", _HEX, "Only provisions for this market.")
_PARTY = _Parameter("partyId", _HEX, "Only provisions of this party.")
_TABLES = ["TABLE_" + table.upper() for table in HISTORY_TABLES]


def document(url: str = "/") -> bytes:
    """The description as JSON; `url` is where the server is reached."""
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Strata",
                "version": version("strata"),
                "description": "Network history: exports, the published archive, and queries over "
                "the same data. 64-bit numbers are text in JSON, times are Unix nanoseconds.",
            },
            "servers": [{"url": url}],
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
    return {**_history(), **_lists(), **_others(), **_operations()}


def _history() -> Schema:
    export = (
        _Parameter("fromBlock", _INT64, "First block of a segment.", required=True),
        _Parameter("toBlock", _INT64, "Last block of a segment, inclusive.", required=True),
        _Parameter("table", {"type": "string", "enum": _TABLES}, "What to export.", required=True),
    )
    zipped = {
        "application/zip": {"schema": {"type": "string", "contentMediaType": "application/zip"}}
    }
    answers = {
        "200": {
            "description": "The ZIP; Range, If-Range and If-None-Match work.",
            "content": zipped,
        },
        "206": {"description": "The range asked for.", "content": zipped},
        "304": {"description": "The client has it already."},
        "412": _failure("The ZIP is another one by now."),
        "416": _failure("No such range."),
    }
    segments = an_object({"segments": listed(reference(SEGMENT))})
    return {
        _EXPORT: _get(
            "exportNetworkHistory", "Download one table over a range of blocks", export, answers
        ),
        "/api/v2/networkhistory/segments": _get(
            "listNetworkHistorySegments",
            "List the segments that are loaded, newest first",
            (),
            _success(segments),
        ),
    }


def _lists() -> Schema:
    order = _Parameter("orderId", _HEX64, "The order.", required=True, place="path")
    spec = _Parameter("oracleSpecId", _HEX, "Only data that matched this oracle spec.")
    resource = _Parameter("id", _HEX, "The resource that was signed.", required=True)
    owner = _Parameter("partyId", _HEX64, "Only this party's.")
    dates = (
        _Parameter("dateRange.startTimestamp", _INT64, "Updated at or after, Unix nanoseconds."),
        _Parameter("dateRange.endTimestamp", _INT64, "Updated before, Unix nanoseconds."),
    )
    reference_ = _Parameter("reference", _TEXT, "Only provisions with this reference.")
    live = _Parameter("live", {"type": "boolean"}, "Only provisions that are live now.")
    lists: tuple[tuple[str, str, str, Message, str, Sequence[_Parameter]], ...] = (
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
        path: _get(
            name, title, (*given, *_PAGINATION), _success(an_object({key: page_schema(message)}))
        )
        for path, name, key, message, title, given in lists
    }


def _others() -> Schema:
    withdrawal = _Parameter("id", _HEX64, "The withdrawal.", required=True, place="path")
    party = _Parameter("partyId", _HEX64, "The party.", required=True, place="path")
    spam = (
        "Get the spam statistics of a party",
        (party,),
        _success(reference(SPAM_RESPONSE)),
    )
    snapshot = _Parameter("snapshot", {"type": "boolean", "default": True}, "Present ones first.")
    provisions = an_object({"liquidityProvisions": listed(reference(LIQUIDITY_PROVISION))})
    return {
        "/api/v2/withdrawal/{id}": _get(
            "getWithdrawal",
            "Get one withdrawal",
            (withdrawal,),
            _success(an_object({"withdrawal": reference(WITHDRAWAL)})),
        ),
        "/api/v2/statistics/spam/{partyId}": _get("getSpamStatistics", *spam),
        "/statistics/spam/{partyId}": _get("getSpamStatisticsOfCore", *spam),
        _STREAM: _get(
            "observeLiquidityProvisions",
            "Stream liquidity provisions: those present, then each that changes, a JSON object a "
            "line; a WebSocket on the same path gets a message for each",
            (_MARKET, _PARTY, snapshot),
            _success(an_object({"result": provisions})),
        ),
        "/api/v2/vega/time": _get(
            "getVegaTime",
            "Get the time of the newest loaded block",
            (),
            _success(reference(VEGA_TIME)),
        ),
        "/api/v2/info": _get(
            "info", "Get the version of the server", (), _success(reference(INFO))
        ),
    }


def _operations() -> Schema:
    def text(kind: str) -> Schema:
        return {"200": {"description": "OK", "content": {kind: {"schema": _TEXT}}}}

    state = {"type": "object", "properties": {"ready": {"type": "boolean"}}, "required": ["ready"]}
    ready = {
        "200": _json("Ready.", state),
        "503": _json("Not ready.", state),
    }
    return {
        "/health": _get("health", "Whether the process lives", (), text("text/plain")),
        "/ready": _get("ready", "Whether data is served, and how old", (), ready),
        "/metrics": _get("metrics", "Counters for Prometheus", (), text("text/plain")),
    }


def _get(name: str, title: str, parameters: Iterable[_Parameter], answers: Schema) -> Schema:
    failures = {status: _failure(meaning) for status, meaning in _ERRORS.items()}
    return {
        "get": {
            "operationId": name,
            "summary": title,
            "parameters": [parameter.described() for parameter in parameters],
            "responses": {**failures, **answers},
        }
    }


def _success(schema: Schema) -> Schema:
    return {"200": {**_json("OK", schema), "headers": _BLOCK_HEADERS}}


def _failure(meaning: str) -> Schema:
    return _json(meaning, error_reference())


def _json(meaning: str, schema: Schema) -> Schema:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}
