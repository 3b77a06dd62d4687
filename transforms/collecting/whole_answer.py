"""Answers over HTTP that must be whole within a timeout, however slowly their bytes come."""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from typing import Any


class WholeAnswer(http.client.HTTPResponse):
    """An answer that must be whole within the timeout of its socket, or reading it fails."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str = "") -> None:
        super().__init__(sock, debuglevel, method)
        self.fp = io.BufferedReader(_TimedReader(sock))


class _TimedReader(io.RawIOBase):
    """The bytes of a socket until its timeout is over. The time starts now."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._file = sock.makefile("rb", buffering=0)
        self._end = time.monotonic() + (sock.gettimeout() or 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - as Python declares it
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class WholeAnswerHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connections for `urllib.request.build_opener` whose answers are whole or fail."""

    def do_open(
        self,
        http_class: Any,  # noqa: ANN401 - a class of connections
        req: urllib.request.Request,
        **options: Any,  # noqa: ANN401 - those of the class
    ) -> http.client.HTTPResponse:
        """Ask over a connection of a class."""
        timed: Any = type("Connection", (http_class,), {"response_class": WholeAnswer})
        return super().do_open(timed, req, **options)
