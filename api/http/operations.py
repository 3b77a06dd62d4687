"""For those who run the server: is it alive, does it serve data, what has it done."""

from __future__ import annotations

import json
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from api.core.health import Health
from api.core.metrics import CONTENT_TYPE, Metrics
from api.http.answers import HTML, JSON, PAGE_HEADERS, Answer, method_not_allowed
from api.http.pages.status_page import status_page


class Endpoint:
    """A path whose answer is made on the spot, to GET and HEAD, or to any method."""

    def __init__(
        self, name: str, answer: Callable[[], Answer], *, any_method: bool = False
    ) -> None:
        self._name = name
        self._answer = answer
        self._any_method = any_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["operation"] = self._name
        allowed = self._any_method or scope["method"] in ("GET", "HEAD")
        await (self._answer() if allowed else method_not_allowed())(scope, receive, send)


def health() -> Endpoint:
    """The process lives; nothing is looked at."""
    return Endpoint(
        "health", lambda: Answer(200, b"ok", b"text/plain; charset=utf-8"), any_method=True
    )


def ready(state: Health) -> Endpoint:
    """Whether data is served, which, and how far the source is ahead: 200 or 503."""

    def answer() -> Answer:
        body = json.dumps(state.described(), separators=(",", ":")).encode()
        return Answer(200 if state.is_ready else 503, body, JSON)

    return Endpoint("ready", answer)


def status(state: Health) -> Endpoint:
    """The same as a page for people, which is there whether or not data is served."""

    def answer() -> Answer:
        body = status_page(state.described(), ".")
        return Answer(200, body, HTML, ((b"cache-control", b"no-cache"), *PAGE_HEADERS))

    return Endpoint("page", answer)


def metrics_page(metrics: Metrics) -> Endpoint:
    """The counters, for Prometheus."""
    return Endpoint("metrics", lambda: Answer(200, metrics.text(), CONTENT_TYPE.encode()))
