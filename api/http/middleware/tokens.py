"""Bearer tokens, where the server was given some (decision 27)."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.core.api_errors import Code
from api.core.keyring import NEEDED, Keyring, bearer_token
from api.http.answers import refusal

# What a balancer and a monitor must be able to ask.
_OPEN = ("/health", "/ready")
_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class Tokens:
    """Lets those in who know one of the tokens."""

    def __init__(self, app: ASGIApp, tokens: Collection[str]) -> None:
        self._app = app
        self._keyring = Keyring(tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if (
            scope["type"] == "lifespan"
            or scope["path"] in _OPEN
            or self._keyring.opens(given_token(scope))
        ):
            await self._app(scope, receive, send)
            return
        answer = refusal(Code.UNAUTHENTICATED, NEEDED, headers=_CHALLENGE)
        await answer(scope, receive, send)


def given_token(scope: Scope) -> str:
    """The token of a request; a page's WebSocket, which has no headers, offers it as protocol."""
    token = bearer_token(Headers(scope=scope).get("authorization", ""))
    offered = scope.get("subprotocols", [])
    return token or (offered[1] if len(offered) == 2 and offered[0] == "Bearer" else "")
