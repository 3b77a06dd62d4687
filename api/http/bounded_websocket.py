"""WebSocket connections as uvicorn serves them, with bounds on what a client may send.

Python parses each frame, however small, on the event loop, and the library neither bounds the
frames of a message nor waits with its pongs for a client that reads nothing. Readers of the stream
have nothing to say, so a connection with too many frames is cut off.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

_FRAMES_AT_ONCE = 200
"""A client regains a tenth of them a second: enough for pings, and for messages in pieces."""
_FRAMES_PER_SECOND = _FRAMES_AT_ONCE / 10
_MOST_PIECES = 100
"""Of one message."""
# At most 170 frames, which are parsed before they are counted.
_SLICE_BYTES = 1024


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket connection."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*given, **named)
        self._frames = float(_FRAMES_AT_ONCE)
        self._counted_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Parse what came piece by piece, until a bound is reached."""
        for start in range(0, len(data), _SLICE_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + _SLICE_BYTES])

    def handle_events(self) -> None:
        """Handle the parsed frames, or cut the connection off if there are too many."""
        now = self.loop.time()
        regained = (now - self._counted_at) * _FRAMES_PER_SECOND
        self._frames = min(_FRAMES_AT_ONCE, self._frames + regained) - len(self.conn.events)
        self._counted_at = now
        if self._frames < 0:
            self.transport.abort()
        else:
            super().handle_events()

    def handle_cont(self, event: Frame) -> None:
        """Take a further piece of a message."""
        if len(self.frames) >= _MOST_PIECES:
            self.transport.abort()
        else:
            super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping, unless the client has to read what was sent before."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()
