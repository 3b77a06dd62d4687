"""What happens to every request: a number, who may ask, its delivery, a line in the log.

What is handed to a connection lies in memory until its client reads it. So a large message goes in
pieces, the next one when the connection has room, and an answer ends when nearly all of it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.core.api_errors import ApiError, Code, FailedError, Reason
from api.core.clients import NEEDED, Keyring, Room, bearer_token
from api.core.telemetry import Metrics, log, request_id
from api.http.answers import ANSWER_HEADERS, client_key, failure, given_fields, refusal
from api.http.compression import Squeezed, wants_gzip
from api.http.cross_origin import Origins, is_preflight
from api.service import Service

_CLIENT_LEFT = 499
# A client that takes a piece of this size within the time for a stall is slow, but alive.
_PIECE_BYTES = 256 * 1024
# What a balancer and a monitor must be able to ask.
_OPEN = ("/health", "/ready")
_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class StalledError(Exception):
    """The client took nothing for too long; whoever sends ends with this."""


class Exchanges:
    """Lets requests in, sends their answers on, logs and counts them.

    Endpoints leave their `operation` in the scope, and find the `room` of their answer there, and
    the headers that go with any answer. Where the server was given tokens, one is wanted (decision
    27).
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        settings = service.settings
        self._app = app
        self._metrics = service.metrics
        self._unread = service.unread
        self._stall_seconds = settings.limits.stall_seconds
        self._origins = Origins(settings.access.origins)
        self._keyring = Keyring(settings.access.tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; see the class."""
        with closing(Room(self._unread, client_key(scope))) as room:
            scope["room"] = room
            exchange = _Exchange(scope, send, self._stall_seconds)
            try:
                await self._serve(exchange, scope, receive)
            except StalledError:
                # The server ends the connection, before the end that was announced.
                log.warning("a client took nothing for %g seconds", self._stall_seconds)
            finally:
                exchange.finish(self._metrics)

    async def _serve(self, exchange: _Exchange, scope: Scope, receive: Receive) -> None:
        """Answer, with an error's own answer where nothing else was sent before."""
        given, send = exchange.given, exchange.send
        if scope["type"] == "http":
            if is_preflight(scope["method"], given):
                await self._origins.preflight(given)(scope, receive, send)
                return
            exchange.headers += self._origins.headers(scope["method"], given)
            if scope["method"] != "HEAD" and wants_gzip(given.get("accept-encoding", "")):
                send = Squeezed(send).send
        try:
            if scope["path"] in _OPEN or self._keyring.opens(given_token(scope, given)):
                await self._app(scope, receive, send)
            else:
                await refusal(Code.UNAUTHENTICATED, NEEDED, headers=_CHALLENGE)(
                    scope, receive, send
                )
        except ApiError as error:
            if exchange.has_begun:
                raise
            await failure(error)(scope, receive, send)
        except StalledError:
            raise
        except Exception:
            # The log has the traceback under the id that the answer gives. As it is raised again,
            # the server closes the connection.
            if scope["type"] == "http" and not exchange.has_begun:
                failed = FailedError(Reason.UNEXPECTED, f"request {exchange.id}")
                await failure(failed, [(b"connection", b"close")])(scope, receive, send)
            raise


class _Exchange:
    """One request and what was answered so far; `headers` go with the answer, whatever it is."""

    def __init__(self, scope: Scope, send: Send, stall_seconds: float) -> None:
        self.given = given_fields(scope)
        self.headers: list[tuple[bytes, bytes]] = []
        scope[ANSWER_HEADERS] = self.headers
        self.id = request_id(self.given.get("x-request-id", ""))
        self._scope = scope
        self._send = send
        self._stall_seconds = stall_seconds
        self._started = perf_counter()
        self._head: Message | None = None
        self._status = 0
        self._sent = 0

    @property
    def has_begun(self) -> bool:
        """Whether something was sent already."""
        return self._status > 0 and self._head is None

    async def send(self, message: Message) -> None:
        """Send a message on; the head of an answer goes with what follows it."""
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self._status = message["status"]
            own = (b"x-request-id", self.id.encode())
            self._head = {**message, "headers": [*message["headers"], *self.headers, own]}
            return
        if kind == "http.response.body":
            self._sent += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self._status = 101
        elif kind == "websocket.send":
            self._sent += len(message.get("text") or b"")
        try:
            for piece in _pieces(message):
                async with asyncio.timeout(self._stall_seconds):
                    head, self._head = self._head, None
                    if head is not None:
                        await self._send(head)
                    await self._send(piece)
        except TimeoutError:
            raise StalledError from None

    def finish(self, metrics: Metrics) -> None:
        """Count the request, and log it."""
        client = self._scope.get("client")
        about = {
            "client": client[0] if client else "",
            "method": self._scope.get("method", "WEBSOCKET"),
            "path": self._scope["path"],
            "query": self._scope["query_string"].decode("latin-1"),
            "agent": self.given.get("user-agent", ""),
        }
        operation, status = self._scope.get("operation", "other"), self._status or _CLIENT_LEFT
        metrics.served(operation, status, self._started, self._sent, about)


def _pieces(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if message["type"] == "http.response.body" and len(body) > _PIECE_BYTES:
        for at in range(0, len(body), _PIECE_BYTES):
            yield {**message, "body": body[at : at + _PIECE_BYTES], "more_body": True}
        # The end of the answer waits until the last piece is nearly read.
        message = {**message, "body": b""}
    yield message


def given_token(scope: Scope, given: Mapping[str, str]) -> str:
    """The token of a request; a page's WebSocket, which has no headers, offers it as protocol."""
    token = bearer_token(given.get("authorization", ""))
    offered = scope.get("subprotocols", [])
    return token or (offered[1] if len(offered) == 2 and offered[0] == "Bearer" else "")
