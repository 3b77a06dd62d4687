"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket

_LISTENING = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at.

    They are none of those that the system gives to outgoing connections: one of these could have
    taken it by the time that the server wants to listen there.
    """
    candidates = iter(random.sample(_LISTENING, len(_LISTENING)))
    return [next(filter(_is_free, candidates)) for _ in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as door:
        try:
            door.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
