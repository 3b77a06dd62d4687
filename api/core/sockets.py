"""The sockets that the server listens on: a TCP port or a Unix socket, and the port of gRPC."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from api.core.server_settings import Listen
from transforms.errors import ConfigError

_BACKLOG = 2048
# As wide as a port is: who may reach it is said by the rights of its folder.
_EVERYONE = 0o666
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
        family = _family(host)
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
            if family == socket.AF_INET6:  # as for a socket that one process listens on
                shared_port.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        shared_port.bind((host, port))
        return shared_port

    def __reduce__(self) -> tuple[object, ...]:
        host, port = self.getsockname()[:2]
        return SharedPort._bound, (self.family, host, port, self.stall_seconds)


@contextmanager
def listening(listen: Listen, stall_seconds: float) -> Iterator[socket.socket]:
    """Open the socket for the length of a block. Raises `ConfigError` where it cannot be had.

    Its connections die when a peer is gone, or takes nothing for `stall_seconds`.
    """
    listener = _unix(Path(listen.uds)) if listen.uds else _tcp(listen, stall_seconds)
    listener.set_inheritable(True)
    try:
        yield listener
    finally:
        listener.close()
        if listen.uds:
            Path(listen.uds).unlink(missing_ok=True)


@contextmanager
def reserved(host: str, port: int) -> Iterator[int]:
    """Hold a port for gRPC, whose library listens by itself; yields it, the chosen one for 0.

    All processes of one server share the port, and the kernel spreads the connections. Held like
    this it is refused to any other server. Raises `ConfigError` where it cannot be had.
    """
    try:
        holder = SharedPort.hold(host, port)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen on port {port} of {host} for gRPC: {error}; choose another with "
            "--grpc-port or --host, or leave gRPC out with --no-grpc"
        ) from error
    with holder:
        yield holder.getsockname()[1]


def host_and_port(host: str, port: int) -> str:
    """A port as clients name it; this is all that gRPC's say of an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address(listener: socket.socket) -> str:
    """Where clients find it."""
    where = listener.getsockname()
    if listener.family is socket.AF_UNIX:
        return f"the Unix socket {where}"
    return f"http://{host_and_port(*where[:2])}"


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _tcp(listen: Listen, stall_seconds: float) -> socket.socket:
    host, port = listen.host, listen.port
    try:
        if listen.workers > 1 and sys.platform == "linux":
            return SharedPort.hold(host, port, stall_seconds)
        listener = socket.create_server((host, port), family=_family(host), backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen on port {port} of {host}: {error}; choose another with --port or --host"
        ) from error
    _watch(listener, stall_seconds)
    return listener


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


def _unix(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket() and not _answers(path):
            path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(_EVERYONE)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on the Unix socket {path}: {error}") from error
    return listener


def _answers(path: Path) -> bool:
    """Whether a living server holds a socket file; a killed one leaves it behind."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(os.fspath(path)) == 0
