"""Handing answers to clients, as fast as these take them and for as long as they take something.

What is handed to a connection lies in memory until its client reads it. So a large message goes in
pieces, the next one when the connection has room, and an answer ends when nearly all of it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.core.logs import log
from api.core.unread import Room, Unread
from api.http.connection import client_key

# A client that takes a piece of this size within the time for a stall is slow, but alive.
_PIECE_BYTES = 256 * 1024


class StalledError(Exception):
    """The client took nothing for too long; whoever sends ends with this."""


class Delivery:
    """Sends the answers of an application on. A client may stall for `stall_seconds`."""

    def __init__(self, app: ASGIApp, unread: Unread, stall_seconds: float) -> None:
        self._app = app
        self._unread = unread
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; see the class."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def deliver(message: Message) -> None:
            try:
                for piece in _pieces(message):
                    async with asyncio.timeout(self._stall_seconds):
                        await send(piece)
            except TimeoutError:
                raise StalledError from None

        with Room(self._unread, client_key(scope)) as room:
            scope["room"] = room
            try:
                await self._app(scope, receive, deliver)
            except StalledError:
                # The server ends the connection, before the end that was announced.
                log.warning("a client took nothing for %g seconds", self._stall_seconds)


def _pieces(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if message["type"] == "http.response.body" and len(body) > _PIECE_BYTES:
        for at in range(0, len(body), _PIECE_BYTES):
            yield {**message, "body": body[at : at + _PIECE_BYTES], "more_body": True}
        # The end of the answer waits until the last piece is nearly read.
        message = {**message, "body": b""}
    yield message
