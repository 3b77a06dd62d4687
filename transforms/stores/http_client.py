"""Connections to web servers: patience, proxies, certificates, and what goes wrong as sentences."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3 import exceptions

from transforms.errors import ConfigError

_CONNECTIONS = 32
_CONNECTS = 2  # again where nobody listens: that seldom passes
_SILENT_SECONDS = 60.0  # that a server may be
_RETRIES = 5
_PAUSE_SECONDS = 0.5  # before the first of them, then doubled each time
_LONGEST_PAUSE_SECONDS = 60

LATER = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""What is answered in place of something that may be there a moment later."""


def open_pool(scheme: str, host: str) -> urllib3.PoolManager:
    """Connections to a host, by the proxy that the environment names for it, if it does."""
    retries = urllib3.Retry(
        total=_RETRIES,
        connect=_CONNECTS,
        status_forcelist=tuple(map(int, LATER)),
        backoff_factor=_PAUSE_SECONDS,
        backoff_max=_LONGEST_PAUSE_SECONDS,
        backoff_jitter=_PAUSE_SECONDS,
        retry_after_max=_LONGEST_PAUSE_SECONDS,
        raise_on_status=False,
    )
    timeout = urllib3.Timeout(connect=_SILENT_SECONDS, read=_SILENT_SECONDS)
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


@contextmanager
def plain_errors(place: str) -> Iterator[None]:
    """Turn urllib3's errors about `place`, an address, into `ConfigError` or `ConnectionError`."""
    try:
        yield
    except exceptions.HTTPError as error:
        reason = error.reason if isinstance(error, exceptions.MaxRetryError) else error
        raise _told(place, reason or error) from error


def _told(place: str, reason: Exception) -> Exception:
    if isinstance(reason, exceptions.SSLError):
        what = getattr(reason.args[0], "verify_message", "") if reason.args else ""
        return ConfigError(
            f"{place}: the server's certificate or its TLS is not accepted ({what or reason}): "
            "correct the address; where you trust a certificate of your own, name its file in "
            "SSL_CERT_FILE"
        )
    if isinstance(reason, exceptions.ProxyError):
        return ConnectionError(
            f"{place}: the proxy does not answer ({reason}): correct HTTPS_PROXY or HTTP_PROXY, or "
            "name the host in NO_PROXY"
        )
    if isinstance(reason, (exceptions.LocationValueError, exceptions.URLSchemeUnknown)):
        return ConfigError(f"{place} is no address ({reason}): correct it")
    if isinstance(reason, exceptions.ResponseError):
        return ConnectionError(f"{place} leads from one address to the next ({reason}): correct it")
    if isinstance(reason, (exceptions.IncompleteRead, exceptions.ProtocolError)):
        return ConnectionError(
            f"{place}: the connection ended before all bytes had arrived ({reason}): run it again"
        )
    return ConnectionError(
        f"no answer for {place} ({reason}): check the network and the address, then run it again"
    )
