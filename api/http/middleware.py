"""What happens to every request: a number, its delivery, a line in the log, who may read, a token.

What is handed to a connection lies in memory until its client reads it. So a large message goes in
pieces, the next one when the connection has room, and an answer ends when nearly all of it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import closing
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.core.api_errors import Code
from api.core.clients import NEEDED, Keyring, Room, Unread, bearer_token
from api.core.telemetry import Metrics, access_log, log, request_id
from api.http.answers import client_key, refusal

_REQUEST_ID = "x-request-id"
_CLIENT_LEFT = 499
# A client that takes a piece of this size within the time for a stall is slow, but alive.
_PIECE_BYTES = 256 * 1024
_METHODS = ("HEAD", "GET", "POST", "PUT", "PATCH", "DELETE")
_ASKED_METHOD = "access-control-request-method"
_ASKED_HEADERS = "access-control-request-headers"
_TWO_HOURS = "7200"
# What a balancer and a monitor must be able to ask.
_OPEN = ("/health", "/ready")
_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class StalledError(Exception):
    """The client took nothing for too long; whoever sends ends with this."""


class Exchanges:
    """Names requests, sends their answers on, logs and counts them.

    A client may stall for `stall_seconds`. Endpoints leave their `operation` in the scope, and find
    the `room` of their answer there.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, unread: Unread, stall_seconds: float
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._unread = unread
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; see the class."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        with closing(Room(self._unread, client_key(scope))) as room:
            scope["room"] = room
            exchange = _Exchange(scope, send, self._stall_seconds)
            try:
                await self._app(scope, receive, exchange.send)
            except StalledError:
                # The server ends the connection, before the end that was announced.
                log.warning("a client took nothing for %g seconds", self._stall_seconds)
            finally:
                exchange.finish(self._metrics)


class _Exchange:
    """One request and what was answered so far."""

    def __init__(self, scope: Scope, send: Send, stall_seconds: float) -> None:
        self._scope = scope
        self._send = send
        self._stall_seconds = stall_seconds
        self._headers = Headers(scope=scope)
        self._id = request_id(self._headers.get(_REQUEST_ID, ""))
        self._started = perf_counter()
        self._status = 0
        self._sent = 0

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self._status = message["status"]
            MutableHeaders(scope=message)[_REQUEST_ID] = self._id
        elif kind == "http.response.body":
            self._sent += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self._status = 101
        elif kind == "websocket.send":
            self._sent += len(message.get("text") or b"")
        try:
            for piece in _pieces(message):
                async with asyncio.timeout(self._stall_seconds):
                    await self._send(piece)
        except TimeoutError:
            raise StalledError from None

    def finish(self, metrics: Metrics) -> None:
        seconds = perf_counter() - self._started
        status = self._status or _CLIENT_LEFT
        operation = self._scope.get("operation", "other")
        metrics.served(operation, status, seconds, self._sent)
        client = self._scope.get("client")
        fields = {
            "client": client[0] if client else "",
            "method": self._scope.get("method", "WEBSOCKET"),
            "path": self._scope["path"],
            "query": self._scope["query_string"].decode("latin-1"),
            "operation": operation,
            "status": status,
            "bytes": self._sent,
            "ms": round(seconds * 1000, 3),
            "agent": self._headers.get("user-agent", ""),
        }
        access_log.info("", extra={"fields": fields})


def _pieces(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if message["type"] == "http.response.body" and len(body) > _PIECE_BYTES:
        for at in range(0, len(body), _PIECE_BYTES):
            yield {**message, "body": body[at : at + _PIECE_BYTES], "more_body": True}
        # The end of the answer waits until the last piece is nearly read.
        message = {**message, "body": b""}
    yield message


class Cors:
    """Lets pages of the given origins (`*`: of all) read answers; no credentials are involved.

    Cross-origin requests are answered as the network's data node does (decision 28).
    """

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._all = not origins or origins[0] == "*"
        self._hosts = frozenset(_host(origin) for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight, or let the request pass and mark its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        allowed = bool(origin) and (self._all or _host(origin) in self._hosts)
        if scope["method"] == "OPTIONS" and _ASKED_METHOD in headers:
            await send(_preflight(headers, origin if allowed else ""))
            await send({"type": "http.response.body"})
            return
        granted = allowed and scope["method"] in (*_METHODS, "OPTIONS")

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.append("vary", "Origin")
                if granted:
                    answer["access-control-allow-origin"] = origin
                    answer["access-control-expose-headers"] = "*"
            await send(message)

        await self._app(scope, receive, marked)


def _preflight(headers: Headers, origin: str) -> Message:
    """The answer to a preflight; without an `origin`, or for an odd method, it grants nothing."""
    message: Message = {"type": "http.response.start", "status": 204, "headers": []}
    answer = MutableHeaders(scope=message)
    for name in ("Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"):
        answer.append("vary", name)
    method = headers[_ASKED_METHOD].upper()
    if origin and method in _METHODS:
        answer["access-control-allow-origin"] = origin
        answer["access-control-allow-methods"] = method
        if header_names := headers.get(_ASKED_HEADERS):
            answer["access-control-allow-headers"] = header_names
        answer["access-control-max-age"] = _TWO_HOURS
    return message


def _host(origin: str) -> str:
    """An origin without its scheme, which may be either."""
    return origin.removeprefix("https://").removeprefix("http://")


class Tokens:
    """Lets those in who know one of the tokens, where the server was given some (decision 27)."""

    def __init__(self, app: ASGIApp, tokens: Collection[str]) -> None:
        self._app = app
        self._keyring = Keyring(tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if (
            scope["type"] == "lifespan"
            or scope["path"] in _OPEN
            or self._keyring.opens(given_token(scope))
        ):
            await self._app(scope, receive, send)
            return
        answer = refusal(Code.UNAUTHENTICATED, NEEDED, headers=_CHALLENGE)
        await answer(scope, receive, send)


def given_token(scope: Scope) -> str:
    """The token of a request; a page's WebSocket, which has no headers, offers it as protocol."""
    token = bearer_token(Headers(scope=scope).get("authorization", ""))
    offered = scope.get("subprotocols", [])
    return token or (offered[1] if len(offered) == 2 and offered[0] == "Bearer" else "")
