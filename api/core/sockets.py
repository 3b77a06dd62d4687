"""The sockets that the server listens on: a TCP port or a Unix socket, and the port of gRPC."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from api.core.settings import Listen
from transforms.errors import ConfigError

_BACKLOG = 2048
# As wide as a port is: who may reach it is said by the rights of its folder.
_EVERYONE = 0o666
# A stream where nothing happens is silent: the kernel asks whether the reader is still there.
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 60, 20, 3


@contextmanager
def listening(listen: Listen, stall_seconds: float) -> Iterator[socket.socket]:
    """Open the socket for the length of a block. Raises `ConfigError` where it cannot be had.

    Its connections die when a peer is gone, or takes nothing for `stall_seconds`.
    """
    if listen.uds:
        listener = _unix(Path(listen.uds))
    else:
        listener = _tcp(listen.host, listen.port)
        _watch(listener, stall_seconds)
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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as holder:
        try:
            # Without the leave to share: it fails where somebody listens, or holds the port so.
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
                port = probe.getsockname()[1]
            # Held, but never listened on: no connection comes here.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind((host, port))
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen on port {port} of {host} for gRPC: {error}; choose another with "
                "--grpc-port or --host, or leave gRPC out with --no-grpc"
            ) from error
        yield port


def grpc_address(host: str, port: int) -> str:
    """Where gRPC's clients find it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address(listener: socket.socket) -> str:
    """Where clients find it."""
    where = listener.getsockname()
    if listener.family is socket.AF_UNIX:
        return f"the Unix socket {where}"
    host, port = where[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen on port {port} of {host}: {error}; choose another with --port or --host"
        ) from error


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
