"""Whole answers, ready to send: JSON, text, and errors (spec 7.1); and who waits for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from api.core.api_errors import ApiError, Code, RefusedError
from api.core.clients import Room, network_key
from api.core.workers import Departure
from api.http.pages.status_page import error_page
from api.queries.messages import error_json

RawHeaders = Iterable[tuple[bytes, bytes]]
ANSWER_HEADERS = "answer_headers"
"""Under which name of a request's scope are the headers that go with its answer, whatever it is."""

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
_FIRST_ERROR = 400
_OPENED = ("archive", "export", "other", "page")
_OF_BODY = (b"content-type", b"content-length", b"etag")


class Answer:
    """A status, a body and headers. To HEAD the server sends no body, only its length."""

    def __init__(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: RawHeaders = ()
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = [*headers]
        if status not in _WITHOUT_BODY:
            length = (b"content-length", str(len(body)).encode())
            self.headers = [(b"content-type", content_type), length, *headers]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it: over HTTP, or in the place of a WebSocket's handshake."""
        answer = _as_opened(self, scope)
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        head = {"status": answer.status, "headers": answer.headers}
        await send({"type": f"{kind}.start", **head})
        await send({"type": f"{kind}.body", "body": answer.body})


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
    error = RefusedError(code, message)
    return Answer(status or error.status, error_json(error), JSON, headers)


def not_found() -> Answer:
    """The answer to a path that is nothing."""
    return refusal(Code.NOT_FOUND, "Not Found")


def method_not_allowed() -> Answer:
    """The answer to a method that a path does not know, as the network's gateway gives it."""
    return refusal(Code.UNIMPLEMENTED, "Method Not Allowed")


def _advice(error: ApiError) -> RawHeaders:
    return (_RETRY,) if error.code is Code.UNAVAILABLE else ()


def client_key(scope: Scope) -> str:
    """Whose bucket and slots a request takes from; all clients of a Unix socket are one."""
    client = scope.get("client")
    return network_key(str(client[0]) if client else "local")


def given_fields(scope: Scope) -> Mapping[str, str]:
    """The headers of a request by their names in lower case; of equal names the first."""
    if "given" not in scope:
        headers = reversed(scope["headers"])
        scope["given"] = {name.decode("latin-1"): text.decode("latin-1") for name, text in headers}
    given: Mapping[str, str] = scope["given"]
    return given


def room_of(scope: Scope) -> Room:
    """The room of the answer to a request (see `api.core.clients`)."""
    room: Room = scope["room"]
    return room


def add_headers(scope: Scope, headers: Iterable[tuple[str, str]]) -> None:
    """Have headers go with the answer to a request, whatever it is."""
    scope[ANSWER_HEADERS] += encoded(headers)


def departure(receive: Receive) -> Departure:
    """What returns when the client has left, or has got its whole answer."""

    async def gone() -> None:
        while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
            pass

    return gone


def _as_opened(answer: Answer, scope: Scope) -> Answer:
    """The answer; in the place of an error's JSON a page where a browser opens an address.

    Only of what people open: the pages, files of the archive, downloads, and addresses that are
    none.
    """
    if (
        answer.status < _FIRST_ERROR
        or answer.content_type != JSON
        or scope["type"] != "http"
        or scope.get("operation", "other") not in _OPENED
        or "text/html" not in given_fields(scope).get("accept", "")
    ):
        return answer
    text = _sentence(json.loads(answer.body))
    headers = [pair for pair in answer.headers if pair[0] not in _OF_BODY]
    fresh = ((b"cache-control", b"no-store"), (b"vary", b"accept"))
    page = error_page(answer.status, text, _base(scope))
    return Answer(answer.status, page, HTML, (*headers, *fresh, *PAGE_HEADERS))


def _sentence(document: dict[str, Any]) -> str:
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
