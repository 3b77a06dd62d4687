"""Errors as pages where a browser opens an address, and JSON for everyone else.

Only of what people open: the pages, files of the archive, downloads, and addresses that are none.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.answers import HTML, JSON, PAGE_HEADERS
from api.http.pages.status_page import error_page

_FIRST_ERROR = 400
_OPENED = ("archive", "export", "other", "page")
_REPLACED = {b"content-type", b"content-length", b"etag", *(name for name, _ in PAGE_HEADERS)}


class ErrorPages:
    """Lets everything pass but errors in JSON that a browser would show as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", ""):
            send = _Page(scope, send)
        await self._app(scope, receive, send)


class _Page:
    """Sends an answer; of an error the JSON is collected and a page sent in its place."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Send one message."""
        if message["type"] == "http.response.start" and self._is_error(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    def _is_error(self, start: Message) -> bool:
        kind = dict(start["headers"]).get(b"content-type", b"")
        opened = self._scope.get("operation", "other") in _OPENED
        return opened and start["status"] >= _FIRST_ERROR and bool(kind == JSON)

    async def _finish(self, start: Message) -> None:
        message = _message(json.loads(self._body)) if self._body else "It has no such part."
        body = error_page(start["status"], message, _base(self._scope))
        headers = [(name, value) for name, value in start["headers"] if name not in _REPLACED]
        own = [(b"content-type", HTML), (b"content-length", str(len(body)).encode())]
        fresh = [(b"cache-control", b"no-store"), (b"vary", b"accept")]
        await self._send({**start, "headers": [*headers, *own, *fresh, *PAGE_HEADERS]})
        await self._send({"type": "http.response.body", "body": body})


def _message(document: dict[str, Any]) -> str:
    """What an error says in words: the innermost is the one about this request."""
    error = document.get("error", document)
    details = error.get("details") or [{}]
    text = details[0].get("inner") or details[0].get("message") or error.get("message")
    return str(text)


def _base(scope: Scope) -> str:
    """The way from an address to the server's root, which a proxy may have below a path."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    above = path.partition(b"?")[0].count(b"/") - 1
    return "/".join([".."] * above) or "."
