"""Connections to web servers: patience, proxies, certificates."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

_CONNECTIONS = 32
_CONNECTS = 2  # again where nobody listens: that seldom passes

LATER = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""What is answered in place of something that may be there a moment later."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How patient a reader is: seconds that a server may be silent, attempts, seconds between them.

    A pause doubles from `pause_seconds` on; none is longer than `most_seconds`.
    """

    timeout_seconds: float = 60.0
    attempts: int = 6
    pause_seconds: float = 0.5
    most_seconds: float = 60.0


def open_pool(scheme: str, host: str, options: HttpOptions) -> urllib3.PoolManager:
    """Connections to a host, by the proxy that the environment names for it, if it does."""
    retries = urllib3.Retry(
        total=options.attempts - 1,
        connect=min(_CONNECTS, options.attempts - 1),
        status_forcelist=tuple(map(int, LATER)),
        backoff_factor=options.pause_seconds,
        backoff_max=options.most_seconds,
        backoff_jitter=options.pause_seconds,
        retry_after_max=int(options.most_seconds),
        raise_on_status=False,
    )
    timeout = urllib3.Timeout(connect=options.timeout_seconds, read=options.timeout_seconds)
    proxy = "" if proxy_bypass(host) else getproxies().get(scheme, "")
    kinds: dict[str, Any] = {
        "retries": retries,
        "timeout": timeout,
        "maxsize": _CONNECTIONS,
        "ssl_context": ssl.create_default_context(),
    }
    if not proxy:
        return urllib3.PoolManager(**kinds)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    account = _account(proxy)
    headers = urllib3.make_headers(proxy_basic_auth=account) if account else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **kinds)


def headers_of(url: str) -> dict[str, str]:
    """What every request says: that bytes are wanted as they lie, and who asks, if `url` tells."""
    account = _account(url)
    authorization = urllib3.make_headers(basic_auth=account) if account else {}
    return {"Accept-Encoding": "identity", "User-Agent": "strata-fetch", **authorization}


def _account(url: str) -> str:
    """The user and the password in an address."""
    parts = urlsplit(url)
    if parts.username is None:
        return ""
    return f"{unquote(parts.username)}:{unquote(parts.password or '')}"
