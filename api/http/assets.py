"""The server's own pages and files: styles and scripts, the API's description and its page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.answers import HTML, JSON, PAGE_HEADERS, Answer, method_not_allowed
from api.http.openapi import document
from exporters.archive.templating import render

_TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}


class Asset:
    """A small file held in memory; a client that has it already is answered with 304."""

    def __init__(self, body: bytes, content_type: bytes) -> None:
        tag = hashlib.sha256(body).hexdigest()[:32]
        # Weak, for it is sent compressed as well.
        self._tag = f'W/"{tag}"'
        headers = ((b"etag", self._tag.encode()), (b"cache-control", b"no-cache"))
        self._whole = Answer(200, body, content_type, (*headers, *PAGE_HEADERS))
        self._not_modified = Answer(304, b"", content_type, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer GET and HEAD."""
        scope["operation"] = "page"
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed()(scope, receive, send)
            return
        is_cached = self._tag in Headers(scope=scope).get("if-none-match", "")
        await (self._not_modified if is_cached else self._whole)(scope, receive, send)


def assets() -> Mapping[str, ASGIApp]:
    """Every asset by its path."""
    folder = files("api.http")
    apps: dict[str, ASGIApp] = {
        f"/static/{file.name}": Asset(file.read_bytes(), _TYPES[file.name.rpartition(".")[2]])
        for file in folder.joinpath("static").iterdir()
    }
    style = files("exporters.archive").joinpath("templates", "style.css").read_bytes()
    apps["/static/style.css"] = Asset(style, _TYPES["css"])
    apps["/docs"] = Asset(render("api.http", "docs.html", base="."), HTML)
    apps["/openapi.json"] = Asset(document(), JSON)
    return apps
