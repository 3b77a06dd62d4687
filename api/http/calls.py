"""Calls with one answer in JSON: the operations that are neither streams nor downloads.

What takes time is done in worker threads, as an answer may have megabytes: its JSON, indented or
not, and what compresses it (`api.http.middleware.compression`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.types import Receive, Scope, Send

from api.core.api_errors import ApiError, CancelledError, MalformedParameterError
from api.core.query_runner import Headers, QueryRunner, block_headers
from api.core.snapshots import Block, Reading
from api.core.unread import Room
from api.core.workers import Cancellation
from api.http.answers import Answer, RawHeaders, encoded, failure, method_not_allowed
from api.http.connection import client_key, departure, room_of
from api.http.inputs import UnknownMethodError, read_query, read_seconds
from api.http.request_parameters import QueryPairs

_Request = TypeVar("_Request")
# The network's gateway sends both types with an error, and its clients may look for either.
_ERROR_TYPE = (b"content-type", b"application/grpc")


def no_headers(_reading: Reading, _request: object) -> Headers:
    """An answer has no headers of its own."""
    return ()


@dataclass(frozen=True, slots=True)
class Operation(Generic[_Request]):
    """What is asked at `path`: how a request is read, and how it is answered with bytes of JSON.

    Bytes in the place of `answer` are always the same, whatever is loaded, or nothing.
    """

    name: str
    path: str
    read: Callable[[Mapping[str, str], QueryPairs], _Request]
    answer: Callable[[Reading, _Request], bytes] | bytes
    headers: Callable[[Reading, _Request], Headers] = no_headers


class CallEndpoint(Generic[_Request]):
    """The endpoint of one operation."""

    def __init__(self, operation: Operation[_Request], runner: QueryRunner) -> None:
        self._operation = operation
        self._runner = runner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["operation"] = self._operation.name
        try:
            answer = await self._answer(scope, receive)
        except CancelledError:
            return
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        admission = self._runner.admit(client_key(scope))
        headers = encoded(admission.headers)
        if admission.refusal is not None:
            return failure(admission.refusal, (*headers, *_block_headers(self._runner.newest)))
        try:
            pairs = await read_query(scope, receive)
            request = self._operation.read(scope["path_params"], pairs)
            seconds = read_seconds(scope, self._runner.seconds)
        except MalformedParameterError as error:
            return failure(error, headers)
        except UnknownMethodError:
            return method_not_allowed()
        pretty = any(name == "pretty" for name, _ in pairs)
        room = room_of(scope)
        return await self._run(request, seconds, receive, room, headers, pretty=pretty)

    async def _run(
        self,
        request: _Request,
        seconds: float,
        receive: Receive,
        room: Room,
        headers: RawHeaders,
        *,
        pretty: bool,
    ) -> Answer:
        fixed = self._operation.answer
        if isinstance(fixed, bytes):
            body = _indented(fixed) if pretty else fixed
            return Answer(200, body, headers=(*headers, *_block_headers(self._runner.newest)))

        def query(reading: Reading, _: Cancellation) -> tuple[bytes, Headers]:
            body = fixed(reading, request)
            more = self._operation.headers(reading, request)
            return _indented(body) if pretty else body, more

        try:
            (body, more), newest = await self._runner.run(query, seconds, departure(receive))
            room.take(len(body))
        except CancelledError:
            raise
        except ApiError as error:
            return failure(error, (_ERROR_TYPE, *headers, *_block_headers(self._runner.newest)))
        return Answer(200, body, headers=(*headers, *encoded(more), *_block_headers(newest)))


def _block_headers(newest: Block | None) -> RawHeaders:
    return encoded(block_headers(newest))


def _indented(body: bytes) -> bytes:
    value: Any = json.loads(body)
    return json.dumps(value, indent=1, ensure_ascii=False).encode()
