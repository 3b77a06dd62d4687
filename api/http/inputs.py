"""What a request brings: parameters in its URL or in a form, and how long the client waits."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from api.core.api_errors import CancelledError, MalformedParameterError
from api.http.query_strings import parse_query

_FORM = "application/x-www-form-urlencoded"
_MOST_FORM_BYTES = 64 * 1024
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


class UnknownMethodError(Exception):
    """The method is none that asks something."""


async def read_query(scope: Scope, receive: Receive) -> list[tuple[str, str]]:
    """The parameters of the URL, after those of a form that is posted in the place of a GET.

    Raises `UnknownMethodError`, and `MalformedParameterError` for what cannot be read.
    """
    query = parse_query(scope["query_string"])
    if scope["method"] == "GET":
        return query
    if scope["method"] != "POST" or not _is_form(scope):
        raise UnknownMethodError
    return [*parse_query(await _body(receive)), *query]


def _is_form(scope: Scope) -> bool:
    return Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower() == _FORM


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CancelledError
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > _MOST_FORM_BYTES:
            raise MalformedParameterError("http: request body too large")
    return body


def read_seconds(scope: Scope, most: float) -> float:
    """The time limit: `most`, or the client's own `Grpc-Timeout` where that is shorter.

    Raises `MalformedParameterError`.
    """
    timeout = Headers(scope=scope).get("grpc-timeout")
    if timeout is None:
        return most
    match = _TIMEOUT.fullmatch(timeout)
    if match is None:
        raise MalformedParameterError(f"invalid grpc-timeout: {timeout}")
    return min(most, int(match[1]) * _UNITS[match[2]])
