"""How often a client may ask: a token bucket each, as in the network's data node (decision 26).

A bucket holds `burst` requests and regains `rate` a second. What is refused is taken from a second
bucket of the same size; a client that empties that one too is shut out for ten minutes.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass

from api.core.api_errors import ApiError, Code

_BAN_SECONDS = 600.0
# Beyond that many clients the one that was silent longest is forgotten.
_CLIENTS = 50_000
_IPV6_NETWORK = 64


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


class TooManyRequestsError(ApiError):
    """The client's bucket is empty."""

    code = Code.RESOURCE_EXHAUSTED

    def __init__(self) -> None:
        super().__init__("api request rate limit exceeded")


class ShutOutError(ApiError):
    """The client went on asking while it was refused."""

    code = Code.PERMISSION_DENIED

    def __init__(self) -> None:
        super().__init__("temporarily banned for continuing to request while rate limited")


_REFUSALS = {429: TooManyRequestsError, 403: ShutOutError}


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request may pass (200), came too early (429) or is shut out (403)."""

    status: int
    headers: tuple[tuple[str, str], ...]

    @property
    def refusal(self) -> ApiError | None:
        """The error that a request is answered with which may not pass."""
        refusal = _REFUSALS.get(self.status)
        return refusal() if refusal else None


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
            return self._admission(403, key, 0, client.banned_until - now)
        if client.requests.take(self._rate, self._burst, now):
            return self._admission(200, key, int(client.requests.tokens))
        if client.refusals.take(self._rate, self._burst, now):
            return self._admission(429, key, 0)
        client.banned_until = now + _BAN_SECONDS
        return self._admission(403, key, 0, _BAN_SECONDS)

    def _client(self, key: str, now: float) -> _Client:
        client = self._clients.get(key)
        if client is None:
            client = _Client(_Bucket(self._burst, now), _Bucket(self._burst, now))
            self._clients[key] = client
            if len(self._clients) > _CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(key)
        return client

    def _admission(self, status: int, key: str, remaining: int, retry: float = 0.0) -> Admission:
        headers = [
            ("ratelimit-limit", str(round(self._rate))),
            ("ratelimit-remaining", str(remaining)),
            ("ratelimit-request-remote-addr", key),
            ("ratelimit-reset", "1"),
        ]
        if retry:
            headers.append(("ratelimit-retry-after", str(round(retry))))
        if status != 200:
            headers.append(("retry-after", str(max(1, round(retry)))))
        return Admission(status, tuple(headers))


def network_key(host: str) -> str:
    """Whose bucket a request takes from: its address, of IPv6 the network of 64 bits."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((int(address), _IPV6_NETWORK), strict=False).network_address)
