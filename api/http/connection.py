"""What is known from the connection of a request: its client, and when that has left."""

from __future__ import annotations

from starlette.types import Receive, Scope

from api.core.rate_limit import network_key
from api.core.unread import Room
from api.core.workers import Departure


def client_key(scope: Scope) -> str:
    """Whose bucket and slots a request takes from; all clients of a Unix socket are one."""
    client = scope.get("client")
    return network_key(str(client[0]) if client else "local")


def room_of(scope: Scope) -> Room:
    """The room of the answer to a request (see `api.core.unread`)."""
    room: Room = scope["room"]
    return room


def departure(receive: Receive) -> Departure:
    """What returns when the client has left, or has got its whole answer."""

    async def gone() -> None:
        while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
            pass

    return gone
