"""The tokens that open the server, where it was given some (decision 27)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection

NEEDED = "a bearer token is needed: Authorization: Bearer <token>"


class Keyring:
    """Knows the tokens by their hashes; without any the server is open."""

    def __init__(self, tokens: Collection[str]) -> None:
        self._tokens = [_digest(token) for token in tokens]

    def opens(self, token: str) -> bool:
        """Whether whoever gives this token may come in; compared in constant time."""
        if not self._tokens:
            return True
        digest = _digest(token)
        # All are compared, and digests have one length: the time taken says nothing.
        return sum(hmac.compare_digest(digest, token_digest) for token_digest in self._tokens) > 0


def bearer_token(authorization: str) -> str:
    """The token in an `Authorization` of the kind Bearer, else nothing."""
    kind, _, token = authorization.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
