"""What goes wrong with a web server, as sentences for whoever must act."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from urllib3 import exceptions

from transforms.errors import ConfigError


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
