"""Whole answers, ready to send: JSON, text, and errors (spec 7.1)."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Receive, Scope, Send

from api.core.api_errors import HTTP_STATUS, ApiError, Code
from api.queries.protojson import error_json

RawHeaders = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"
HTML = b"text/html; charset=utf-8"
# Everything comes from this server: a page loads nothing from elsewhere and sends nothing there.
PAGE_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)
_RETRY = (b"retry-after", b"1")
_WITHOUT_BODY = (204, 304)


class Answer:
    """A status, a body and headers. To HEAD the server sends no body, only its length."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: RawHeaders = ()
    ) -> None:
        self.status = status
        self.body = body
        self.headers = [*headers]
        if status not in _WITHOUT_BODY:
            length = (b"content-length", str(len(body)).encode())
            self.headers = [(b"content-type", content_type), length, *headers]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it: over HTTP, or in the place of a WebSocket's handshake."""
        kind = "websocket.http" if scope["type"] == "websocket" else "http"
        head = {"type": f"{kind}.response.start", "status": self.status}
        await send({**head, "headers": [*self.headers]})
        await send({"type": f"{kind}.response.body", "body": self.body})


def encoded(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Headers as they are sent."""
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]


def failure(error: ApiError, headers: RawHeaders = ()) -> Answer:
    """An error as its table says."""
    return Answer(error.status, error_json(error), JSON, (*headers, *_advice(error)))


def envelope(error: ApiError, headers: RawHeaders = ()) -> Answer:
    """An error of a stream or a download before its first byte: the object stands under `error`."""
    body = b'{"error":%b}' % error_json(error)
    return Answer(error.status, body, JSON, (*headers, *_advice(error)))


def refusal(
    code: Code, message: str, status: int | None = None, headers: RawHeaders = ()
) -> Answer:
    """An error of HTTP itself; `status` where the code's own does not fit."""
    error = ApiError(message)
    error.code = code
    return Answer(status or HTTP_STATUS[code], error_json(error), JSON, headers)


def not_found() -> Answer:
    """The answer to a path that is nothing."""
    return refusal(Code.NOT_FOUND, "Not Found")


def method_not_allowed() -> Answer:
    """The answer to a method that a path does not know, as the network's gateway gives it."""
    return refusal(Code.UNIMPLEMENTED, "Method Not Allowed")


def _advice(error: ApiError) -> RawHeaders:
    return (_RETRY,) if error.code is Code.UNAVAILABLE else ()
