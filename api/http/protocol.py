"""HTTP and WebSocket connections as uvicorn serves them, with bounds on what a client may cost.

uvicorn bounds neither headers, nor requests sent ahead, nor the time that a request takes to come.
What is too much is refused before the application sees it, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from api.core.api_errors import Code
from api.core.connections import Closing, Connections
from api.http.answers import refusal

CONNECTIONS = "connections"
"""Under which name of its state the application has the connections of its process."""

MOST_MESSAGE_BYTES = 64 * 2**10
"""Of a WebSocket message: readers of the stream have nothing to say."""

# Who still sends does not see why it is refused where the connection ends at once.
_TELL_SECONDS = 1.0
# Of a line "name: value".
_SEPARATORS = 4

_REFUSALS = {
    Closing.HEADERS: (Code.RESOURCE_EXHAUSTED, "request headers too large or too many", 431),
    Closing.URL: (Code.RESOURCE_EXHAUSTED, "URL too long: send its parameters as a form", 414),
    Closing.BODY: (Code.RESOURCE_EXHAUSTED, "request body too large", 413),
    Closing.MALFORMED: (Code.INVALID_ARGUMENT, "invalid HTTP request", 400),
    Closing.HOST: (Code.INVALID_ARGUMENT, "a request names exactly one valid Host", 400),
    Closing.PIPELINED: (Code.RESOURCE_EXHAUSTED, "too many requests on one connection", 429),
    Closing.TIME: (Code.DEADLINE_EXCEEDED, "the request took too long to arrive", 408),
    Closing.CLIENT: (Code.RESOURCE_EXHAUSTED, "too many connections from this client", 429),
    Closing.FULL: (Code.UNAVAILABLE, "too many connections: try again", 503),
}
# A name, an address, or an address of IPv6 in brackets; then perhaps a port. It may be empty.
_HOST = re.compile(
    rb"(?:\[[\w:.~%-]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)


class _RefusedError(Exception):
    """Ends the parsing of a request that is not taken."""


class BoundedHttp(HttpToolsProtocol):
    """One connection of HTTP/1.1."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._registry: Connections = app_state[CONNECTIONS]
        self._limits = self._registry.limits
        # Whether nothing came since it was opened, or answered; whether what comes is thrown away.
        self._silent = True
        self._deaf = False
        # Of the request that comes: its bytes, but those of the piece that it began in; whether
        # that is the present one, whether it is still in its headers, and has come whole.
        self.url, self.headers = b"", []
        self._received = 0
        self._begins = False
        self._in_head = True
        self._whole = False
        self._why = Closing.MALFORMED
        # The request that is answered now; those sent ahead of their time wait in the pipeline.
        self._present: RequestResponseCycle | None = None

    # What happens to the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection in, or refuse it."""
        super().connection_made(transport)
        why = self._registry.admit(self, self.client[0] if self.client else None)
        if why is None:
            self._registry.waits(self, self._limits.request_seconds)
        else:
            self._registry.closes(why)
            self._end(why)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it, and all its requests; uvicorn tells only the newest that the client left."""
        self._registry.gone(self)
        self.pipeline.clear()
        super().connection_lost(exc)
        if self._present is not None:
            self._present.disconnected = True
            self._present.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Parse what came, in pieces whose size bounds what is kept of them."""
        silent, self._silent = self._silent, False
        size = self._limits.header_bytes
        for start in range(0, len(data), size):
            if self._deaf:
                return
            self._feed(data[start : start + size])
        if silent and not (self._whole or self._deaf):
            self._registry.waits(self, self._limits.request_seconds)

    def overdue(self) -> None:
        """Close it: it was idle for too long, or a request did not come whole."""
        if self._deaf:
            self.transport.close()
        elif self._silent:
            self._registry.closes(Closing.IDLE)
            self.transport.close()
        else:
            self._refuse(Closing.TIME)

    def evict(self) -> bool:
        """Close it for another one, unless an answer is on its way."""
        cycle = self._unanswered()
        if (cycle and cycle.response_started) or self.transport.get_write_buffer_size():
            return False
        self._deaf = True
        self.transport.abort()
        return True

    def handle_websocket_upgrade(self) -> None:
        """Let a `BoundedWebSocket` go on."""
        self._deaf = True
        self._registry.gone(self)
        super().handle_websocket_upgrade()

    # What happens to its requests

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._begins = self._in_head = True
        self._whole = False

    def on_headers_complete(self) -> None:
        """Answer the request, or queue it behind the one before."""
        if len(self.headers) > self._limits.headers or not self._begins:
            self._check_head()
        if not _has_valid_host(self.headers, self.parser.get_http_version()):
            self._why = Closing.HOST
            raise _RefusedError
        if len(self.pipeline) >= self._limits.pipelined and self._unanswered():
            self._why = Closing.PIPELINED
            raise _RefusedError
        super().on_headers_complete()
        self._in_head = False
        # uvicorn stops reading here, and would not see when the client leaves.
        self.flow.resume_reading()

    def on_message_complete(self) -> None:
        """Nothing is missing of the request."""
        super().on_message_complete()
        self._whole = True
        if self._unanswered():
            self._registry.works(self)
        else:
            self._rest()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 - uvicorn's own type is private
        self._present = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on with the next request, which may be there already.

        In the place of uvicorn's own, whose timer ends when anything comes, and never returns.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if not self._deaf:
            self._rest()
        elif not self.pipeline:
            self._end()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    # How it is bounded

    def _feed(self, piece: bytes) -> None:
        self._begins = False
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            if not self._should_upgrade():
                self._unsupported_upgrade_warning()
            elif self._unanswered():
                self._refuse(Closing.PIPELINED)
            else:
                self.handle_websocket_upgrade()
        except httptools.HttpParserError:
            self._refuse(self._why)
        else:
            self._received = 0 if self._begins else self._received + len(piece)
            if not self._whole and (why := self._excess()):
                self._refuse(why)

    def _check_head(self) -> None:
        """Raise `_RefusedError` where headers of several pieces are too many, or too long."""
        most = self._limits.header_bytes
        lines = sum(len(name) + len(value) + _SEPARATORS for name, value in self.headers)
        if len(self.url) > most:
            self._why = Closing.URL
        elif len(self.headers) > self._limits.headers or len(self.url) + lines > most:
            self._why = Closing.HEADERS
        else:
            return
        raise _RefusedError

    def _excess(self) -> Closing | None:
        """Of what a request that has not come whole is too long already."""
        limits = self._limits
        if self._in_head and self._received > limits.header_bytes:
            return Closing.URL if len(self.url) > limits.header_bytes else Closing.HEADERS
        if len(self.headers) > limits.headers:  # or trailers, which come after the body
            return Closing.HEADERS
        if self._received > limits.header_bytes + limits.body_bytes:
            return Closing.BODY
        return None

    def _rest(self) -> None:
        """Wait for the rest of a request, or for the next one."""
        if not self._whole:
            self._registry.waits(self, self._limits.request_seconds)
        elif not self.pipeline:
            self._silent = True
            self._registry.waits(self, self._limits.idle_seconds)

    def _refuse(self, why: Closing) -> None:
        """Take nothing more; what came before is answered, then the connection is closed."""
        self._deaf = True
        self._registry.closes(why)
        cycle = self._unanswered()
        if cycle is None:
            was_answered = not (self._in_head or self._whole)
            self._end(None if was_answered else why)
        elif cycle.response_started or not cycle.more_body:
            cycle.keep_alive = False  # so that the answer says that it is the last
            cycle.transport = cast("asyncio.Transport", _LastAnswer(self.transport, self._end))
            self._registry.works(self)
            self.flow.resume_reading()  # or it would not be seen when the client leaves
        elif self.pipeline:
            self.transport.abort()
        else:  # the application waits for a body that will not come
            cycle.disconnected = True
            cycle.message_event.set()
            self._end(why)

    def _end(self, why: Closing | None = None) -> None:
        """Close the connection when the client has read its answers, and why, or soon."""
        self._deaf = True
        if self.transport.is_closing():
            return
        if not self._registry.tells(self, _TELL_SECONDS):
            self.transport.abort()
            return
        self.flow.resume_reading()
        with suppress(OSError):  # the client has left
            if why is not None:
                self.transport.write(_refusal(why, self.server_state.default_headers))
            self.transport.write_eof()

    def _unanswered(self) -> RequestResponseCycle | None:
        """The newest request, unless its answer is complete."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return None if cycle is None or cycle.response_complete else cycle


class _LastAnswer:
    """What uvicorn writes a last answer to, whose end gives the client time to read it."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = end


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One connection that went on as a WebSocket, which never waits: its library asks for life."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it on."""
        super().connection_made(transport)
        self._registry: Connections = self.app_state[CONNECTIONS]
        self._registry.take(self, self.client[0] if self.client else None)

    def data_received(self, data: bytes) -> None:
        """Take what came; the first of it is the whole handshake."""
        super().data_received(data)
        if not self.handshake_initiated:  # the library has bounds of its own, and says nothing
            self._registry.closes(Closing.HEADERS)
            self.transport.write(_refusal(Closing.HEADERS, self.default_headers))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._registry.leave(self)
        super().connection_lost(exc)


def _refusal(why: Closing, default_headers: list[tuple[bytes, bytes]]) -> bytes:
    """The whole answer, as it is sent."""
    code, message, status = _REFUSALS[why]
    answer = refusal(code, message, status, [*default_headers, (b"connection", b"close")])
    lines = (name + b": " + value + b"\r\n" for name, value in answer.headers)
    return b"".join([STATUS_LINE[answer.status], *lines, b"\r\n", answer.body])


def _has_valid_host(headers: Iterable[tuple[bytes, bytes]], version: str) -> bool:
    """Whether there is one `Host` that can be one; before HTTP/1.1 there may be none."""
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1:
        return not hosts and version != "1.1"
    return _HOST.fullmatch(hosts[0]) is not None
