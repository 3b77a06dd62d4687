"""HTTP connections as uvicorn serves them, with bounds on what a client may cost.

uvicorn bounds neither a request's head and body, nor the time that it takes to come, nor how many
connections there are. A connection has one request at a time: what is sent ahead is not taken, and
the connection ends with the answer. A proxy belongs before a server that strangers may reach.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from api.core.api_errors import Code
from api.core.server_settings import BODY_BYTES, Limits
from api.http.answers import Answer, refusal

HEAD_BYTES = 32 * 2**10
"""The most before a request's body, its URL among them."""
MOST_HEADERS = 100
MOST_MESSAGE_BYTES = 64 * 2**10
"""Of a WebSocket message: readers of the stream have nothing to say."""

# The library of WebSockets takes no longer lines, and says nothing.
_UPGRADE_BYTES = 8 * 2**10
# Who still sends does not see why it is refused where the connection ends at once.
_TELL_SECONDS = 1.0
# Refused connections that are told so; beyond it they are closed without a word.
_MOST_TOLD = 16
# Of a line "name: value".
_SEPARATORS = 4

_HEAD = refusal(Code.RESOURCE_EXHAUSTED, "request headers too large or too many", 431)
_BODY = refusal(Code.RESOURCE_EXHAUSTED, "request body too large", 413)
_MALFORMED = refusal(Code.INVALID_ARGUMENT, "invalid HTTP request", 400)
_LATE = refusal(Code.DEADLINE_EXCEEDED, "the request took too long to arrive", 408)
_FULL = refusal(Code.UNAVAILABLE, "too many connections: try again", 503)


class BoundedHttp(HttpToolsProtocol):
    """One connection of HTTP/1.1."""

    def __init__(self, limits: Limits, **given: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**given)
        self._limits = limits
        self.headers = []
        # Of the request that comes: its bytes, whether it is before its body, or has come whole.
        self._received = 0
        self._in_head = True
        self._is_whole = False
        self._why = _MALFORMED
        self._late: asyncio.TimerHandle | None = None
        # Whether what comes is thrown away.
        self._is_deaf = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection in, unless there are too many."""
        super().connection_made(transport)
        self._start_clock()
        excess = len(self.connections) - self._limits.connections
        if excess > _MOST_TOLD:
            transport.abort()
        elif excess > 0:
            self._refuse(_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and bound what is kept of it."""
        if self._is_deaf:
            return
        self._received += len(data)
        self._is_whole = False
        super().data_received(data)
        if self._is_whole:
            self._received = 0
            self._stop_clock()
        elif not self._is_deaf:
            if self._late is None:
                self._start_clock()
            if len(self.headers) > MOST_HEADERS:  # or trailers, which come after the body
                self._refuse(_HEAD)
            elif self._received > (HEAD_BYTES if self._in_head else HEAD_BYTES + BODY_BYTES):
                self._refuse(_HEAD if self._in_head else _BODY)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._is_whole = False

    def on_headers_complete(self) -> None:
        """Answer the request. Raises for one that is not taken, which ends the parsing."""
        if self._unanswered() is not None:
            self._refuse(_MALFORMED)
            return
        is_long = self._received > HEAD_BYTES and self._head_size() > HEAD_BYTES
        if is_long or len(self.headers) > MOST_HEADERS:
            self._why = _HEAD
            raise ValueError
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError
        super().on_headers_complete()
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        """Keep what came of a body, unless it is of a request that was sent ahead."""
        if not self._is_deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Nothing is missing of the request."""
        super().on_message_complete()
        self._in_head = self._is_whole = True

    def handle_websocket_upgrade(self) -> None:
        """Let a WebSocket go on."""
        if self._head_size() > _UPGRADE_BYTES:
            self._refuse(_HEAD)
            return
        self._is_deaf = self._is_whole = True
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's own
        """Refuse what the parser does not take."""
        self._refuse(self._why)

    def _head_size(self) -> int:
        lines = (len(name) + len(value) + _SEPARATORS for name, value in self.headers)
        return len(self.url) + sum(lines)

    def _start_clock(self) -> None:
        self._late = self.loop.call_later(self._limits.request_seconds, self._end_late)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end_late(self) -> None:
        if self._received:
            self._refuse(_LATE)
        else:  # nobody asked for anything
            self.transport.close()

    def _refuse(self, why: Answer) -> None:
        """Take nothing more; an answer on its way is sent, then the connection is closed."""
        self._is_deaf = True
        self._stop_clock()
        cycle = self._unanswered()
        if cycle is not None and (cycle.response_started or not cycle.more_body):
            cycle.keep_alive = False
            return
        if self.transport.is_closing():
            return
        if cycle is not None:  # the application waits for a body that will not come
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_reading()  # or it would not be seen when the client leaves
        with suppress(OSError):  # it has left
            if cycle is not None or self._in_head:
                self.transport.write(self._written(why))
            self.transport.write_eof()
        self.loop.call_later(_TELL_SECONDS, self.transport.close)

    def _written(self, answer: Answer) -> bytes:
        """The last answer of a connection, as it is sent."""
        own = (*self.server_state.default_headers, (b"connection", b"close"))
        lines = (name + b": " + value + b"\r\n" for name, value in (*own, *answer.headers))
        return b"".join([STATUS_LINE[answer.status], *lines, b"\r\n", answer.body])

    def _unanswered(self) -> RequestResponseCycle | None:
        """The request that is answered now."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return None if cycle is None or cycle.response_complete else cycle
