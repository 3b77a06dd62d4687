"""A TCP relay before a server, which can be cut as a cable is: nothing passes, nobody is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 2**16


class Relay:
    """Passes the connections to its `port` on to a port of this machine."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._whole = threading.Event()
        self._whole.set()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Pass nothing on, and take nothing from connections that are open."""
        self._whole.clear()

    def mend(self) -> None:
        """Pass on again, with what waited meanwhile."""
        self._whole.set()

    def close(self) -> None:
        """Take no connection any more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.mend()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._whole.wait()
        with (
            suppress(OSError),  # the server is away
            client,
            socket.create_connection(("127.0.0.1", self._upstream)) as server,
        ):
            back = threading.Thread(target=self._pass_on, args=(server, client), daemon=True)
            back.start()
            self._pass_on(client, server)
            back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                self._whole.wait()
                target.sendall(piece)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay(upstream: int) -> Iterator[Relay]:
    """A relay that takes connections until the block ends."""
    made = Relay(upstream)
    try:
        yield made
    finally:
        made.close()
