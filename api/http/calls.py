"""Calls with one answer in JSON: the operations that are neither streams nor downloads.

What takes time is done in worker threads, as an answer may have megabytes: its JSON, indented or
not, and what compresses it (`api.http.compression`).
"""

from __future__ import annotations

import json
from typing import Any

from starlette.types import Receive, Scope, Send

from api.core.api_errors import ApiError, CancelledError, MalformedParameterError
from api.core.descriptors import Message
from api.core.workers import QueryRunner
from api.http.answers import (
    Answer,
    departure,
    encoded,
    failure,
    given_fields,
    room_of,
)
from api.http.parameters import parse_query, read_request, time_limit
from api.queries.messages import record_json
from api.queries.operation import Answers, Operation
from api.queries.pagination import Record

# The network's gateway sends both types with an error, and its clients may look for either.
_ERROR_TYPE = (b"content-type", b"application/grpc")
_PRETTY = "application/json+pretty"
_FORM = "application/x-www-form-urlencoded"
_MOST_FORM_BYTES = 64 * 1024


class UnknownMethodError(Exception):
    """The method is none that asks something."""


class CallEndpoint:
    """The endpoint of one operation."""

    def __init__(self, operation: Operation, runner: QueryRunner) -> None:
        self._operation = operation
        self._answers = Answers(operation, runner, record_json)
        self._pretty_answers = Answers(operation, runner, _indented_json)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        query = await read_query(scope, receive)
        request = read_request(self._operation, query, scope["path_params"])
        seconds = time_limit(scope)
        accepted = given_fields(scope).get("accept")
        is_pretty = accepted == _PRETTY or any(name == "pretty" for name, _ in query)
        answers = self._pretty_answers if is_pretty else self._answers
        try:
            body, headers = await answers.of(request, departure(receive), seconds)
            room_of(scope).take(len(body))
            answer = Answer(200, body, headers=encoded(headers))
        except CancelledError:
            raise
        except ApiError as error:
            answer = failure(error, (_ERROR_TYPE, *encoded(self._answers.block_headers())))
        await answer(scope, receive, send)

    def refusal(self, error: ApiError) -> Answer:
        """The answer to a request that may not ask now."""
        return failure(error, encoded(self._answers.block_headers()))


def _indented_json(message: Message, record: Record) -> bytes:
    value: Any = json.loads(record_json(message, record))
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


async def read_query(scope: Scope, receive: Receive) -> list[tuple[str, str]]:
    """The parameters of the URL, after those of a form that is posted in the place of a GET.

    Raises `UnknownMethodError`, and `MalformedParameterError` for what cannot be read.
    """
    query = parse_query(scope["query_string"])
    if scope["method"] == "GET":
        return query
    content_type = given_fields(scope).get("content-type", "").partition(";")[0]
    if scope["method"] != "POST" or content_type.strip().lower() != _FORM:
        raise UnknownMethodError
    return [*parse_query(await _body(receive)), *query]


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
