"""A number for every request, in its answer and in the log, and a line in the log when it ends."""

from __future__ import annotations

from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.core.logs import access_log, request_id
from api.core.metrics import Metrics

_HEADER = "x-request-id"
_CLIENT_LEFT = 499


class RequestLog:
    """Names requests, logs and counts them. Endpoints leave their `operation` in the scope."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; see the class."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, request_id(Headers(scope=scope).get(_HEADER, "")))
        try:
            await self._app(scope, receive, exchange.send)
        finally:
            exchange.finish(self._metrics)


class _Exchange:
    """One request and what was answered so far."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self._scope = scope
        self._send = send
        self._id = request_id
        self._started = perf_counter()
        self._status = 0
        self._sent = 0

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self._status = message["status"]
            MutableHeaders(scope=message)[_HEADER] = self._id
        elif kind == "http.response.body":
            self._sent += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self._status = 101
        elif kind == "websocket.send":
            self._sent += len(message.get("text") or b"")
        await self._send(message)

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
            "agent": Headers(scope=self._scope).get("user-agent", ""),
        }
        access_log.info("", extra={"fields": fields})
