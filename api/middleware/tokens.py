"""Bearer tokens, where the server was given some (decision 27)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.answers import refusal
from api.errors import Code

# What a balancer and a monitor must be able to ask.
_OPEN = ("/health", "/ready")
_NEEDED = "a bearer token is needed: Authorization: Bearer <token>"
_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class Tokens:
    """Lets those in who know one of the tokens; compared in constant time."""

    def __init__(self, app: ASGIApp, tokens: Collection[str]) -> None:
        self._app = app
        self._tokens = [_digest(token) for token in tokens]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        kind = scope["type"]
        if kind == "lifespan" or not self._tokens or scope["path"] in _OPEN or self._knows(scope):
            await self._app(scope, receive, send)
            return
        answer = refusal(Code.UNAUTHENTICATED, _NEEDED, headers=_CHALLENGE)
        await answer(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        given = _digest(given_token(scope))
        # All are compared, and digests have one length: the time taken says nothing.
        return sum(hmac.compare_digest(given, token) for token in self._tokens) > 0


def given_token(scope: Scope) -> str:
    """The token of a request; a page's WebSocket, which has no headers, offers it as protocol."""
    kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    offered = scope.get("subprotocols", [])
    return offered[1] if len(offered) == 2 and offered[0] == "Bearer" else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
