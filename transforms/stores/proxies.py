"""The proxies that the environment names (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)."""

from __future__ import annotations

from urllib.request import getproxies, proxy_bypass

from urllib3.exceptions import LocationValueError
from urllib3.util import Url, parse_url

from transforms.errors import ConfigError


def proxy_of(scheme: str, host: str) -> Url | None:
    """The proxy for requests of `scheme` to `host`, if any. Raises `ConfigError`."""
    text = "" if proxy_bypass(host) else getproxies().get(scheme, "")
    if not text:
        return None
    try:
        proxy = parse_url(text if "://" in text else f"http://{text}")
    except LocationValueError:
        proxy = Url()
    if proxy.scheme not in ("http", "https") or not proxy.host:
        shown = text.rpartition("@")[2]  # without a password
        raise ConfigError(
            f"{scheme.upper()}_PROXY names no proxy of HTTP ({shown}): write http://<host>:<port>; "
            "SOCKS proxies cannot be used"
        )
    return proxy
