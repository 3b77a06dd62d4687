"""The settings of the server, besides where things lie.

Every setting has a default that is safe on one's own machine. The variable of a field of `Listen`,
`Limits` or `Access` is `STRATA_API_<FIELD>`; an option of `strata serve` beats
it. Where things lie is said by the same variables as for the pipeline. Times are seconds, sizes are
bytes.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from exporters.locations import (
    Amount,
    Kind,
    Locations,
    Natural,
    Positive,
    Seconds,
    Switch,
    read_group,
    read_locations,
)
from transforms.errors import ConfigError
from transforms.open_files import open_files_limit

_PREFIX = "STRATA_API_"
_TOKEN = re.compile(r"[!-~]+")


def _split(text: str) -> tuple[str, ...]:
    """The items of a text with commas between them."""
    return tuple(filter(None, map(str.strip, text.split(","))))


_Texts = Annotated[tuple[str, ...], Kind(_split)]


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the server listens: `host` with `port` for HTTP and `grpc_port` for gRPC (0: any free).

    `http` and `grpc` switch either off. `proxies` are the addresses whose `X-Forwarded-For` is
    believed; `log_level` (`info`, `warning`, `error`) is that of the log, where `info` includes
    every request. `hosts` are further names of the server as clients write them, with their port
    unless it is their scheme's own.
    """

    host: str = "127.0.0.1"
    port: Natural = 3008
    grpc_port: Natural = 3007
    http: Switch = True
    grpc: Switch = True
    workers: Positive = 1
    proxies: _Texts = ("127.0.0.1", "::1")
    log_level: str = "info"
    hosts: Annotated[tuple[str, ...], Kind(lambda text: _split(text.lower()))] = ()


def is_loopback(host: str) -> bool:
    """Whether an address, or a name, is one that only this machine has for itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


BODY_BYTES = 256 * 2**10
"""The most of a request's body, or of a message of gRPC."""
_MOST_CONNECTIONS = 4000


def _connections() -> int:
    # HTTP and gRPC have a quarter each, volumes and everything else the rest.
    return min(_MOST_CONNECTIONS, max(4, open_files_limit() // 4))


def _processors() -> int:
    # More would only take turns; one alone would let a slow query stop all others.
    return max(2, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process gives.

    `threads` queries (by default one for each processor, at least two) run at once and `queue` more
    wait, each at most `query_seconds` altogether; `export_seconds` is for finding, or rendering,
    the parts of a download. A client may hold `streams_per_client` streams and downloads open;
    `stream_buffer` is what may wait for a slow reader, `stall_seconds` how long one may take
    nothing at all. `unread_bytes` bounds the memory of what is made and not taken by any client,
    half of it is for one. `rendered_bytes` bounds the rendered parts that are kept. `stop_seconds`
    is how long a stop waits for running requests. `memory` is DuckDB's bound for all queries of a
    process together, in its own notation.

    A request comes whole within `request_seconds`; a connection may be idle for `idle_seconds`
    between two requests. `connections` may be open, as many again for gRPC.
    """

    threads: Positive = field(default_factory=_processors)
    queue: Natural = 64
    query_seconds: Amount = 10.0
    export_seconds: Amount = 600.0
    streams_per_client: Positive = 250
    stream_buffer: Positive = 4 * 2**20
    stall_seconds: Amount = 120.0
    unread_bytes: Positive = 512 * 2**20
    rendered_bytes: Natural = 20 * 2**30
    stop_seconds: Natural = 30
    memory: str = "1GB"
    poll_seconds: Amount = 1.0
    """Between two looks for a new snapshot of the warehouse."""
    lag_seconds: Amount = 60.0
    """Between two looks at the source."""
    request_seconds: Seconds = 20.0
    # Longer than the idle time of common balancers, which would else meet closed connections.
    idle_seconds: Seconds = 75.0
    connections: Positive = field(default_factory=_connections)


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask how often, and from where.

    `rate` requests a second and `burst` at once for each client, in each process (rate 0: no
    limit); `tokens`: one of them is wanted as bearer token (none: open); `origins` of the web pages
    that may read answers (`*`: all).
    """

    rate: Amount = 20.0
    burst: Positive = 100
    tokens: _Texts = field(default=(), repr=False)
    origins: _Texts = ("*",)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """All settings of the server."""

    locations: Locations
    listen: Listen = Listen()
    limits: Limits = Limits()
    access: Access = Access(rate=0.0)


def read_settings(
    environment: Mapping[str, str] | None = None,
    /,
    *,
    warehouse: str | None = None,
    archive: str | None = None,
    **listen: str | int | None,
) -> ServeSettings:
    """Settings from `STRATA_*` variables; what is given here, and is not None, beats them.

    Raises `ConfigError` naming the variable that cannot be used.
    """
    address = read_group(Listen, _PREFIX, environment, overrides=listen)
    if not (address.http or address.grpc):
        raise ConfigError("HTTP and gRPC are both switched off: leave one of them on")
    # On one's own machine a limit only hinders; on a network it is on unless it is set to 0.
    rate = {"rate": 0.0} if is_loopback(address.host) else {}
    access = read_group(Access, _PREFIX, environment, defaults=rate)
    if not all(map(_TOKEN.fullmatch, access.tokens)):  # the sentence shows no token
        raise ConfigError(
            "STRATA_API_TOKENS has a token that no client can send: give visible ASCII characters, "
            "with commas between tokens"
        )
    return ServeSettings(
        read_locations(Locations, environment, warehouse=warehouse, archive=archive),
        address,
        read_group(Limits, _PREFIX, environment),
        access,
    )
