"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Callable

import pytest

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


def wait_until_listening(
    process: subprocess.Popen[bytes], port: int, seconds: float, failure: Callable[[], str]
) -> None:
    """Return when a server takes connections; fail the test where it ends, or takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(failure())
            time.sleep(0.02)
