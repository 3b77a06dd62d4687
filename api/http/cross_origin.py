"""Cross-origin requests, answered as the network's data node does (decision 28)."""

from __future__ import annotations

from collections.abc import Mapping

from api.http.answers import Answer, RawHeaders, encoded

_METHODS = ("HEAD", "GET", "POST", "PUT", "PATCH", "DELETE")
_ASKED_METHOD = "access-control-request-method"
_TWO_HOURS = "7200"
_VARY = ("vary", "Origin")
_NO_CONTENT = 204


def is_preflight(method: str, given: Mapping[str, str]) -> bool:
    """Whether a browser asks what a page of another origin may ask."""
    return method == "OPTIONS" and _ASKED_METHOD in given


class Origins:
    """Whose pages may read answers (`*`: all); no credentials are involved."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._all = not origins or origins[0] == "*"
        self._hosts = frozenset(_host(origin) for origin in origins)

    def headers(self, method: str, given: Mapping[str, str]) -> RawHeaders:
        """The headers of an answer to a request that is no preflight."""
        origin = self._allowed(given)
        if not origin or method not in (*_METHODS, "OPTIONS"):
            return encoded([_VARY])
        granted = ("access-control-allow-origin", origin)
        return encoded([_VARY, granted, ("access-control-expose-headers", "*")])

    def preflight(self, given: Mapping[str, str]) -> Answer:
        """The answer to a preflight; to another origin, or for an odd method, it grants nothing."""
        asked = ("Access-Control-Request-Method", "Access-Control-Request-Headers")
        headers = [_VARY, *(("vary", name) for name in asked)]
        origin, method = self._allowed(given), given[_ASKED_METHOD].upper()
        if origin and method in _METHODS:
            headers.append(("access-control-allow-origin", origin))
            headers.append(("access-control-allow-methods", method))
            if names := given.get("access-control-request-headers"):
                headers.append(("access-control-allow-headers", names))
            headers.append(("access-control-max-age", _TWO_HOURS))
        return Answer(_NO_CONTENT, b"", headers=encoded(headers))

    def _allowed(self, given: Mapping[str, str]) -> str:
        """The origin of a request, if it is one of these."""
        origin = given.get("origin", "")
        return origin if self._all or _host(origin) in self._hosts else ""


def _host(origin: str) -> str:
    """An origin without its scheme, which may be either."""
    return origin.removeprefix("https://").removeprefix("http://")
