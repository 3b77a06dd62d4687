"""The server's own small answers: pages, styles and scripts, the description, and its state.

The state is for those who run the server: is it alive, does it serve data, what has it done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from starlette.types import Receive, Scope, Send

from api.core.health import Health
from api.core.telemetry import CONTENT_TYPE, Metrics
from api.http.answers import (
    HTML,
    JSON,
    PAGE_HEADERS,
    Answer,
    departure,
    given_fields,
    method_not_allowed,
    room_of,
)
from api.http.archive_page import archive_page, view_archive
from api.http.openapi import document
from api.http.served_database import ServedAddress
from api.service import Service
from exporters.archive.templating import render

_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_NO_CACHE = (b"cache-control", b"no-cache")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path whose answer is made on the spot, to GET and HEAD, or to any method."""

    name: str
    answer: Callable[[Scope], Answer]
    any_method: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["operation"] = self.name
        is_allowed = self.any_method or scope["method"] in ("GET", "HEAD")
        answer = self.answer(scope) if is_allowed else method_not_allowed()
        await answer(scope, receive, send)


def own_pages(state: Health, metrics: Metrics) -> Mapping[str, Endpoint]:
    """The endpoints of all paths but those of the archive and the calls."""
    alive = Answer(200, b"ok", b"text/plain; charset=utf-8")

    def ready(_scope: Scope) -> Answer:
        body = json.dumps(state.described(), separators=(",", ":")).encode()
        return Answer(200 if state.is_ready else 503, body, JSON)

    return {
        "/health": Endpoint("health", lambda _: alive, any_method=True),
        "/ready": Endpoint("ready", ready),
        "/metrics": Endpoint(
            "metrics", lambda _: Answer(200, metrics.text(), CONTENT_TYPE.encode())
        ),
        "/docs": _asset(render("api.http", "docs.html", base="."), HTML),
        "/openapi.json": _asset(document(), JSON),
        **{
            f"/static/{file.name}": _asset(file.read_bytes(), _TYPES[Path(file.name).suffix])
            for folder in (files("api.http") / "static", files("exporters.archive") / "templates")
            for file in folder.iterdir()
            if Path(file.name).suffix in _TYPES
        },
    }


def _asset(body: bytes, content_type: bytes) -> Endpoint:
    """A small file held in memory; a client that has it already is answered with 304."""
    # Weak, for it is sent compressed as well.
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = ((b"etag", tag.encode()), _NO_CACHE)
    whole = Answer(200, body, content_type, (*headers, *PAGE_HEADERS))
    not_modified = Answer(304, b"", content_type, headers)

    def answer(scope: Scope) -> Answer:
        return not_modified if tag in given_fields(scope).get("if-none-match", "") else whole

    return Endpoint("page", answer)


@dataclass(frozen=True, slots=True)
class ArchivePages:
    """The archive's page: what exists, what is missing, how to get it. Answers GET and HEAD."""

    service: Service
    address: ServedAddress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed()(scope, receive, send)
            return
        # Relative links: a proxy may have the server below a path of its own.
        base = ".." if scope["path"].endswith("/archive/") else "."
        own = self.address.of(scope)
        body = await self.service.files.run(
            lambda _: self._page(base, own), departure=departure(receive)
        )
        room_of(scope).take(len(body))
        answer = Answer(200, body, HTML, (_NO_CACHE, *PAGE_HEADERS))
        await answer(scope, receive, send)

    def _page(self, base: str, own: str) -> bytes:
        snapshots, store = self.service.snapshots, self.service.store
        if snapshots.current is None:
            return archive_page(view_archive(None, store), base)
        with snapshots.reading(needs_rows=False) as reading:
            return archive_page(view_archive(reading.snapshot.catalog, store, own), base)
