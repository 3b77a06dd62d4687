"""What the server can be told, and the only place of `api` that reads the environment.

Every setting has a default that is safe on one's own machine. The variable of a field of `Listen`,
`Limits` or `Access` is `STRATA_API_<FIELD>`; an option of `strata serve` beats it. Where things lie
is said by the same variables as for the pipeline. Times are seconds, sizes are bytes.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from exporters.names import NameStyle
from transforms.errors import ConfigError

_DATA = Path("strata-data")
_EMBEDDED_SOURCE = str(_DATA / "source")
_ABOVE_ZERO = {"least": 1}


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything lies: `warehouse` a folder, the others a folder or `s3://bucket/prefix`.

    `source` is asked only how far it is ahead; an empty text: not at all.
    """

    warehouse: Path
    archive: str
    source: str = ""
    names: NameStyle = NameStyle.SPEC

    @property
    def rendered(self) -> Path:
        """The folder of parts that were rendered for a download as nobody had published them."""
        return self.warehouse.absolute() / "rendered"


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the server listens: `host` with `port` for HTTP and `grpc_port` for gRPC (0: any free).

    HTTP is on the Unix socket `uds` instead, if that is given. `http` and `grpc` switch either off.
    `proxies` are the addresses whose `X-Forwarded-For` is believed; `log_level` (`info`, `warning`,
    `error`) is that of the log, where `info` includes every request.
    """

    host: str = "127.0.0.1"
    port: int = 3008
    grpc_port: int = 3007
    uds: str = ""
    http: bool = True
    grpc: bool = True
    workers: int = field(default=1, metadata=_ABOVE_ZERO)
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    log_level: str = "info"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect, to whatever is switched on."""
        only_a_file = bool(self.uds) and not self.grpc
        if only_a_file or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


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
    nothing at all. `rendered_bytes` bounds the parts in `Places.rendered`. `stop_seconds` is how
    long a stop waits for running requests. `memory` is DuckDB's bound for all queries of a process
    together, in its own notation.
    """

    threads: int = field(default_factory=_processors, metadata=_ABOVE_ZERO)
    queue: int = 64
    query_seconds: float = 10.0
    export_seconds: float = 600.0
    streams_per_client: int = field(default=250, metadata=_ABOVE_ZERO)
    stream_buffer: int = field(default=4 * 2**20, metadata=_ABOVE_ZERO)
    stall_seconds: float = 120.0
    rendered_bytes: int = 20 * 2**30
    stop_seconds: int = 30
    memory: str = "1GB"
    poll_seconds: float = 1.0
    """Between two looks for a new generation of the catalog."""
    lag_seconds: float = 60.0
    """Between two looks at the source."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask how often, and from where.

    `rate` requests a second and `burst` at once for each client, in each process (rate 0: no
    limit); `tokens`: one of them is wanted as bearer token (none: open); `origins` of the web pages
    that may read answers (`*`: all).
    """

    rate: float = 20.0
    burst: int = field(default=100, metadata=_ABOVE_ZERO)
    tokens: tuple[str, ...] = field(default=(), repr=False)
    origins: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Everything the server can be told."""

    places: Places
    listen: Listen = Listen()
    limits: Limits = Limits()
    access: Access = Access(rate=0.0)


def read_settings(
    environment: Mapping[str, str] = os.environ,
    /,
    *,
    warehouse: str | None = None,
    archive: str | None = None,
    **listen: str | int | None,
) -> ServeSettings:
    """Settings from `STRATA_*` variables; what is given here, and is not None, beats them.

    Raises `ConfigError` naming the variable that cannot be used.
    """
    read = _Reader(environment)
    given = {name: value for name, value in listen.items() if value is not None}
    address = read.settings(Listen(), given)
    if not (address.http or address.grpc):
        raise ConfigError("HTTP and gRPC are both switched off: leave one of them on")
    # On one's own machine a limit only hinders; on a network it is on unless it is set to 0.
    access = Access(rate=0.0 if address.is_loopback else Access().rate)
    return ServeSettings(
        _places(read, warehouse, archive),
        address,
        read.settings(Limits(), {}),
        read.settings(access, {}),
    )


def _places(read: _Reader, warehouse: str | None, archive: str | None) -> Places:
    source = read.text("STRATA_SOURCE", _EMBEDDED_SOURCE)
    data = _data_folder(source)
    warehouse = warehouse or read.text("STRATA_WAREHOUSE", str(data / "warehouse"))
    return Places(
        Path(warehouse).expanduser(),
        archive or read.text("STRATA_ARCHIVE", str(data / "archive")),
        source,
        read.style("STRATA_NAME_STYLE"),
    )


def _data_folder(source: str) -> Path:
    """The folder that the pipeline gives a source unless it is told another one."""
    if source == _EMBEDDED_SOURCE:
        return _DATA
    place = source if "://" in source else str(Path(source).expanduser().resolve())
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", place.rstrip("/").rpartition("/")[2])
    return _DATA / f"{name}-{digest}"


_Group = TypeVar("_Group", Listen, Limits, Access)


@dataclass(frozen=True, slots=True)
class _Reader:
    environment: Mapping[str, str]

    def settings(self, defaults: _Group, given: Mapping[str, Any]) -> _Group:
        """A group of settings: as given, else as its variables say, else the defaults."""
        values: dict[str, Any] = {}
        for item in fields(defaults):
            default = getattr(defaults, item.name)
            name = f"STRATA_API_{item.name.upper()}"
            if item.name in given:
                values[item.name] = given[item.name]
            elif isinstance(default, tuple):
                values[item.name] = self.several(name) or default
            elif isinstance(default, str):
                values[item.name] = self.text(name, default)
            elif isinstance(default, bool):
                values[item.name] = self.truth(name, default=default)
            else:
                values[item.name] = self.number(name, default, item.metadata.get("least", 0))
        return type(defaults)(**values)

    def text(self, name: str, default: str = "") -> str:
        return self.environment.get(name, "").strip() or default

    def several(self, name: str) -> tuple[str, ...]:
        items = (item.strip() for item in self.text(name).split(","))
        return tuple(item for item in items if item)

    def number(self, name: str, default: float, least: int) -> float:
        """A number that is whole where the default is."""
        text = self.text(name, str(default))
        whole = isinstance(default, int)
        if not re.fullmatch(r"\d+" if whole else r"\d+(\.\d+)?", text) or float(text) < least:
            kind = "a whole number" if whole else "a number"
            raise ConfigError(f"{name} is {text!r}: give {kind} from {least} up")
        return int(text) if whole else float(text)

    def truth(self, name: str, *, default: bool) -> bool:
        text = self.text(name, "1" if default else "0")
        if text not in ("0", "1"):
            raise ConfigError(f"{name} is {text!r}: give 1 (on) or 0 (off)")
        return text == "1"

    def style(self, name: str) -> NameStyle:
        text = self.text(name, NameStyle.SPEC.value)
        styles = {style.value: style for style in NameStyle}
        if text not in styles:
            raise ConfigError(f"{name} is {text!r}: give one of {', '.join(styles)}")
        return styles[text]
