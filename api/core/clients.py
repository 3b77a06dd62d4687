"""Who may ask, how often, and how much of what is made for a client it may leave unread.

Tokens open the server, where it was given some (decision 27). Each client has a token bucket, as in
the network's data node (decision 26), which holds `burst` requests and regains `rate` a second.
What is refused is taken from a second bucket of the same size; a client that empties that one too
is shut out for ten minutes. It may have so many streams and downloads open at once.

An answer that is made has room for the largest of its messages until it has ended. What finds no
room is refused before it is sent, so that clients which take nothing cost others a retry, and never
the process. All but the tokens is for use on one event loop.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from api.core.api_errors import ApiError, Code, RefusedError, UnavailableError
from api.core.telemetry import Metrics

NEEDED = "a bearer token is needed: Authorization: Bearer <token>"
_TOO_EARLY = (Code.RESOURCE_EXHAUSTED, "api request rate limit exceeded")
_SHUT_OUT = (
    Code.PERMISSION_DENIED,
    "temporarily banned for continuing to request while rate limited",
)
_BAN_SECONDS = 600.0
# Beyond that many clients the one that was silent longest is forgotten.
_CLIENTS = 50_000
_IPV6_NETWORK = 64
# Of a message there are ours and a library's, and the allocator keeps about as much (measured).
_COPIES = 3
_GREEDY_CLIENTS = 2
"""How many clients that take nothing fill the bound: one alone leaves room for others."""


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


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float

    def take(self, rate: float, burst: int, now: float) -> bool:
        self.tokens = min(burst, self.tokens + (now - self.at) * rate)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class _Client:
    requests: _Bucket
    refusals: _Bucket
    banned_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Admission:
    """What goes with the answer to a request, and the error in its place where it may not pass."""

    headers: tuple[tuple[str, str], ...] = ()
    refusal: ApiError | None = None


class RateLimiter:
    """The buckets of one process. `rate` is requests a second, `burst` requests at once."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    def admit(self, key: str, now: float) -> Admission:
        """Count one request of the client `key` at `now`, seconds of a clock that only advances."""
        client = self._client(key, now)
        if now < client.banned_until:
            return self._admission(key, 0, _SHUT_OUT, client.banned_until - now)
        if client.requests.take(self._rate, self._burst, now):
            return self._admission(key, int(client.requests.tokens))
        if client.refusals.take(self._rate, self._burst, now):
            return self._admission(key, 0, _TOO_EARLY)
        client.banned_until = now + _BAN_SECONDS
        return self._admission(key, 0, _SHUT_OUT, _BAN_SECONDS)

    def _client(self, key: str, now: float) -> _Client:
        client = self._clients.get(key)
        if client is None:
            client = _Client(_Bucket(self._burst, now), _Bucket(self._burst, now))
            self._clients[key] = client
            if len(self._clients) > _CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(key)
        return client

    def _admission(
        self, key: str, remaining: int, refusal: tuple[Code, str] | None = None, retry: float = 0.0
    ) -> Admission:
        headers = [
            ("ratelimit-limit", str(round(self._rate))),
            ("ratelimit-remaining", str(remaining)),
            ("ratelimit-request-remote-addr", key),
            ("ratelimit-reset", "1"),
        ]
        if retry:
            headers.append(("ratelimit-retry-after", str(round(retry))))
        if refusal is None:
            return Admission(tuple(headers))
        headers.append(("retry-after", str(max(1, round(retry)))))
        return Admission(tuple(headers), RefusedError(*refusal))


@lru_cache(maxsize=4096)  # a client asks many times
def network_key(host: str) -> str:
    """Whose bucket a request takes from: its address, of IPv6 the network of 64 bits."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((int(address), _IPV6_NETWORK), strict=False).network_address)


class Slots:
    """Counts what each client has open in this process; for use on one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    @contextmanager
    def taken(self, client: str) -> Iterator[None]:
        """Count one more for the length of a block. Raises `RefusedError`."""
        if self._counts[client] >= self._most:
            raise RefusedError(Code.RESOURCE_EXHAUSTED, "client reached max subscription allowed")
        self._counts[client] += 1
        try:
            yield
        finally:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]


class Unread:
    """What is made and not taken, in bytes of memory: `most` for all clients, half for one."""

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most = most
        self._metrics = metrics
        self._size = 0
        self._of_client: Counter[str] = Counter()

    def take(self, client: str, size: int) -> None:
        """Make room, for an answer of any size where there is nothing else.

        Raises `RefusedError`, `UnavailableError`.
        """
        if _is_over(self._of_client[client], size, self._most // _GREEDY_CLIENTS):
            self._metrics.refused.inc()
            raise RefusedError(
                Code.RESOURCE_EXHAUSTED,
                "this client has too much to take: read the answers before, or end them",
            )
        if _is_over(self._size, size, self._most):
            self._metrics.refused.inc()
            raise UnavailableError("the server's clients have too much to take: try again")
        self._size += size
        self._of_client[client] += size

    def give(self, client: str, size: int) -> None:
        """It was taken, or will never be."""
        self._size -= size
        self._of_client[client] -= size
        if not self._of_client[client]:
            del self._of_client[client]


class Room:
    """The room of one answer, until it is closed."""

    def __init__(self, unread: Unread, client: str) -> None:
        self._unread = unread
        self._client = client
        self._size = 0

    def take(self, size: int) -> None:
        """Make room for a message of `size` bytes; see `Unread.take`."""
        size *= _COPIES
        if size > self._size:
            self._unread.take(self._client, size - self._size)
            self._size = size

    def close(self) -> None:
        """Give the room back."""
        self._unread.give(self._client, self._size)
        self._size = 0


def _is_over(there: int, size: int, most: int) -> bool:
    return there > 0 and there + size > most
