"""Cross-origin requests of web pages, answered as the network's data node does (decision 28)."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("HEAD", "GET", "POST", "PUT", "PATCH", "DELETE")
_ASKED_METHOD = "access-control-request-method"
_ASKED_HEADERS = "access-control-request-headers"
_TWO_HOURS = "7200"


class Cors:
    """Lets pages of the given origins (`*`: of all) read answers; no credentials are involved."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._all = not origins or origins[0] == "*"
        self._hosts = frozenset(_host(origin) for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight, or let the request pass and mark its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        allowed = bool(origin) and (self._all or _host(origin) in self._hosts)
        if scope["method"] == "OPTIONS" and _ASKED_METHOD in headers:
            await send(_preflight(headers, origin if allowed else ""))
            await send({"type": "http.response.body"})
            return
        granted = allowed and scope["method"] in (*_METHODS, "OPTIONS")

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.append("vary", "Origin")
                if granted:
                    answer["access-control-allow-origin"] = origin
                    answer["access-control-expose-headers"] = "*"
            await send(message)

        await self._app(scope, receive, marked)


def _preflight(headers: Headers, origin: str) -> Message:
    """The answer to a preflight; without an `origin`, or for an odd method, it grants nothing."""
    message: Message = {"type": "http.response.start", "status": 204, "headers": []}
    answer = MutableHeaders(scope=message)
    for name in ("Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"):
        answer.append("vary", name)
    method = headers[_ASKED_METHOD].upper()
    if origin and method in _METHODS:
        answer["access-control-allow-origin"] = origin
        answer["access-control-allow-methods"] = method
        if header_names := headers.get(_ASKED_HEADERS):
            answer["access-control-allow-headers"] = header_names
        answer["access-control-max-age"] = _TWO_HOURS
    return message


def _host(origin: str) -> str:
    """An origin without its scheme, which may be either."""
    return origin.removeprefix("https://").removeprefix("http://")
