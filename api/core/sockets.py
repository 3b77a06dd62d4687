"""The ports that the server listens on: that of HTTP, and that of gRPC."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from api.core.server_settings import Listen
from transforms.errors import ConfigError

_BACKLOG = 2048
# A stream where nothing happens is silent: the kernel asks whether the reader is still there.
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 60, 20, 3


class SharedPort(socket.socket):
    """A port that is held, but not listened on, for processes that each listen on it.

    What another process gets of it is a socket of its own: the kernel then spreads connections over
    them. Of one socket that all have, whoever wakes first takes all connections that wait.
    """

    stall_seconds: float | None = None

    @classmethod
    def hold(cls, host: str, port: int, stall_seconds: float | None = None) -> SharedPort:
        """Hold a port, any free one for 0. Raises `OSError` where somebody else has it.

        `stall_seconds` are those of the connections, where it is listened on.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Without the leave to share: it fails where somebody listens, or holds the port so.
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            port = probe.getsockname()[1]
        shared_port = cls._bound(family, host, port, stall_seconds)
        # Taken where connections of before end on the port; from now on for others to see.
        shared_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        return shared_port

    @classmethod
    def _bound(cls, family: int, host: str, port: int, stall_seconds: float | None) -> SharedPort:
        shared_port = cls(family)
        shared_port.stall_seconds = stall_seconds
        shared_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if stall_seconds is not None:
            _watch(shared_port, stall_seconds)
            if family == socket.AF_INET6:  # one for IPv4 may be beside it
                shared_port.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        shared_port.bind((host, port))
        return shared_port

    def __reduce__(self) -> tuple[object, ...]:
        host, port = self.getsockname()[:2]
        return SharedPort._bound, (self.family, host, port, self.stall_seconds)


@contextmanager
def listening(listen: Listen, stall_seconds: float) -> Iterator[SharedPort]:
    """Hold the port of HTTP for the length of a block. Raises `ConfigError` where it is not free.

    Its connections die when a peer is gone, or takes nothing for `stall_seconds`.
    """
    remedy = "choose another with --port or --host"
    with _held(listen.host, listen.port, "", remedy, stall_seconds) as port:
        if listen.workers == 1:
            port.listen(_BACKLOG)
        yield port


@contextmanager
def reserved(host: str, port: int) -> Iterator[int]:
    """Hold a port for gRPC, whose library listens by itself; yields it, the chosen one for 0.

    All processes of one server share the port, and the kernel spreads the connections. Held like
    this it is refused to any other server. Raises `ConfigError` where it cannot be had.
    """
    remedy = "choose another with --grpc-port or --host, or leave gRPC out with --no-grpc"
    with _held(host, port, " for gRPC", remedy) as holder:
        yield holder.getsockname()[1]


def _held(
    host: str, port: int, use: str, remedy: str, stall_seconds: float | None = None
) -> SharedPort:
    try:
        return SharedPort.hold(host, port, stall_seconds)
    except (OSError, OverflowError) as error:
        sentence = f"cannot listen on port {port} of {host}{use}: {error}; {remedy}"
        raise ConfigError(sentence) from error


def host_and_port(host: str, port: int) -> str:
    """A port as clients name it; this is all that gRPC's say of an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _watch(listener: socket.socket, stall_seconds: float) -> None:
    """Have the kernel watch every connection; accepted sockets inherit the options on Linux."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _PROBE_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", int(stall_seconds * 1000)),
    ):
        if hasattr(socket, option):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
