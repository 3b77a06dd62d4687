"""Whole answers, ready to send: JSON, text, and the errors that HTTP itself has (spec 7.1)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from starlette.types import Receive, Scope, Send

RawHeaders = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"


class Answer:
    """A status, a body and headers. To HEAD the body is not sent, only its length."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: RawHeaders = ()
    ) -> None:
        self.status = status
        self.body = body
        self.headers = [
            (b"content-type", content_type),
            (b"content-length", str(len(body)).encode()),
            *headers,
        ]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it: as HTTP, or in the place of a WebSocket's handshake."""
        kind = "websocket.http" if scope["type"] == "websocket" else "http"
        await send(
            {
                "type": f"{kind}.response.start",
                "status": self.status,
                "headers": self.headers,
            }
        )
        await send({"type": f"{kind}.response.body", "body": self.body})


def refusal(status: int, code: int, message: str, headers: RawHeaders = ()) -> Answer:
    """An error without details: an HTTP status, a gRPC code number, and why."""
    body = {"code": code, "message": message, "details": []}
    return Answer(status, json.dumps(body, separators=(",", ":")).encode(), headers=headers)
