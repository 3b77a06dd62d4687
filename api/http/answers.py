"""Whole answers, ready to send: JSON, text, and errors (spec 7.1); and who waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.types import Receive, Scope, Send

from api.core.api_errors import ApiError, Code, RefusedError
from api.core.clients import Room, network_key
from api.core.workers import Departure
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


class Answer:
    """A status, a body and headers. To HEAD the server sends no body, only its length."""

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
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        head = {"status": self.status, "headers": self.headers}
        await send({"type": f"{kind}.start", **head})
        await send({"type": f"{kind}.body", "body": self.body})


def encoded(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Headers as they are sent."""
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]


def failure(error: ApiError, headers: RawHeaders = ()) -> Answer:
    """An error as its table says."""
    return Answer(error.status, error_json(error), JSON, (*headers, *_advice(error)))


def envelope(error: ApiError) -> Answer:
    """An error of a stream or a download before its first byte: the object stands under `error`."""
    body = b'{"error":%b}' % error_json(error)
    return Answer(error.status, body, JSON, _advice(error))


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
    """Whose bucket and slots a request takes from; those who left before it was known are one."""
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
