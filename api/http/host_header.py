"""Whether a request names its host as HTTP wants it (RFC 9112, section 3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A name, an address, or an address of IPv6 in brackets; then perhaps a port. It may be empty.
_HOST = re.compile(
    rb"(?:\[[\w:.~%-]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)


def has_valid_host(headers: Iterable[tuple[bytes, bytes]], version: str) -> bool:
    """Whether there is one `Host` that can be one; before HTTP/1.1 there may be none."""
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1:
        return not hosts and version != "1.1"
    return _HOST.fullmatch(hosts[0]) is not None
