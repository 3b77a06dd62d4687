"""One question, one answer in JSON: the operations that are neither streams nor downloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar

from starlette.types import Receive, Scope, Send

from api.answers import Answer, RawHeaders, failure, method_not_allowed, refusal
from api.errors import ApiError, CancelledError, Code, DeadlineError, MalformedParameterError
from api.inputs import UnknownMethodError, read_query, read_seconds
from api.metrics import Metrics
from api.rate_limit import RateLimiter, client_key
from api.requests import Query
from api.snapshots import Block, Reading, Snapshots
from api.work import Cancellation, Workers

_Request = TypeVar("_Request")
_REFUSED = {
    429: (Code.RESOURCE_EXHAUSTED, "api request rate limit exceeded"),
    403: (
        Code.PERMISSION_DENIED,
        "temporarily banned for continuing to request while rate limited",
    ),
}
# The network's gateway sends both types with an error, and its clients may look for either.
_ERROR_TYPE = (b"content-type", b"application/grpc")


@dataclass(frozen=True, slots=True)
class Operation(Generic[_Request]):
    """What is asked at `path`: how a request is read, and how it is answered with bytes of JSON."""

    name: str
    path: str
    read: Callable[[Mapping[str, str], Query], _Request]
    answer: Callable[[Reading, _Request], bytes]


@dataclass(frozen=True, slots=True)
class Desk:
    """What all calls share. `seconds` is the time limit of one."""

    snapshots: Snapshots
    workers: Workers
    seconds: float
    limiter: RateLimiter | None
    metrics: Metrics


class Call(Generic[_Request]):
    """The endpoint of one operation."""

    def __init__(self, operation: Operation[_Request], desk: Desk) -> None:
        self._operation = operation
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["operation"] = self._operation.name
        try:
            answer = await self._answer(scope, receive)
        except CancelledError:
            return
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        headers: RawHeaders = ()
        if self._desk.limiter is not None:
            verdict = self._desk.limiter.judge(client_key(scope), monotonic())
            headers = verdict.headers
            if verdict.status != 200:
                self._desk.metrics.limited.inc()
                code, message = _REFUSED[verdict.status]
                return refusal(code, message, headers=(*headers, *_block_headers(self._newest)))
        try:
            query = await read_query(scope, receive)
            request = self._operation.read(scope["path_params"], query)
            seconds = read_seconds(scope, self._desk.seconds)
        except MalformedParameterError as error:
            return failure(error, headers)
        except UnknownMethodError:
            return method_not_allowed()
        pretty = any(name == "pretty" for name, _ in query)
        return await self._asked(request, seconds, receive, headers, pretty=pretty)

    async def _asked(
        self,
        request: _Request,
        seconds: float,
        receive: Receive,
        headers: RawHeaders,
        *,
        pretty: bool,
    ) -> Answer:
        try:
            job = partial(self._ask, request)
            body, newest = await self._desk.workers.run(job, seconds, receive)
        except CancelledError:
            raise
        except ApiError as error:
            self._count(error)
            return failure(error, (_ERROR_TYPE, *headers, *_block_headers(self._newest)))
        return Answer(
            200, _indented(body) if pretty else body, headers=(*headers, *_block_headers(newest))
        )

    def _ask(self, request: _Request, cancellation: Cancellation) -> tuple[bytes, Block | None]:
        with (
            self._desk.snapshots.reading() as reading,
            cancellation.interrupting(reading.interrupt),
        ):
            return self._operation.answer(reading, request), reading.snapshot.newest

    @property
    def _newest(self) -> Block | None:
        snapshot = self._desk.snapshots.current
        return snapshot.newest if snapshot else None

    def _count(self, error: ApiError) -> None:
        if isinstance(error, DeadlineError):
            self._desk.metrics.timed_out.inc()
        elif error.code is Code.UNAVAILABLE:
            self._desk.metrics.refused.inc()


def _block_headers(newest: Block | None) -> RawHeaders:
    height, time = (newest.height, newest.time) if newest else (0, 0)
    return (
        (b"x-block-height", str(height).encode()),
        (b"x-block-timestamp", str(time).encode()),
    )


def _indented(body: bytes) -> bytes:
    found: Any = json.loads(body)
    return json.dumps(found, indent=1, ensure_ascii=False).encode()
