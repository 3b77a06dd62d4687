"""The connections of HTTP that a process has: how many there may be, and which one makes room.

A connection waits while only its client can go on: before a request has come whole, and between
two requests. One whose request is worked on, or that is sent an answer or a stream, does not wait,
and is never closed for another. For use on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from time import monotonic
from typing import Protocol

from api.core.clients import network_key
from api.core.server_settings import ConnectionLimits
from api.core.telemetry import Metrics, log

# Refused connections that are told so; beyond it they are closed without a word.
_MOST_TOLD = 16
_LOG_SECONDS = 1.0


class Closing(Enum):
    """Why the server closes a connection, or stops reading it."""

    HEADERS = "headers"
    URL = "url"
    BODY = "body"
    MALFORMED = "malformed"
    HOST = "host"
    PIPELINED = "pipelined"
    TIME = "time"
    IDLE = "idle"
    ROOM = "room"
    """It waited longest, and another one came."""
    CLIENT = "client"
    FULL = "full"


class Connection(Protocol):
    """What the registry asks of a connection."""

    def overdue(self) -> None:
        """It waited for its client for as long as it may."""

    def evict(self) -> bool:
        """Close it at once, and return True, unless it is still sent something."""


class Connections:
    """All connections of one process. Of `is_exempt` addresses (proxies) any number may come."""

    def __init__(
        self, limits: ConnectionLimits, metrics: Metrics, is_exempt: Callable[[str], bool]
    ) -> None:
        self.limits = limits
        self._metrics = metrics
        self._is_exempt = is_exempt
        self._open: dict[object, str] = {}
        self._of_client: defaultdict[str, set[object]] = defaultdict(set)
        # With their deadlines, in the order in which they began to wait.
        self._waiting: dict[Connection, float] = {}
        self._refusals: dict[Connection, float] = {}
        self._unlogged: Counter[str] = Counter()

    def admit(self, connection: Connection, host: str | None) -> Closing | None:
        """Take in a new connection from an address (None: it has left), or say why not.

        Where there is no room, the one that has waited longest is closed.
        """
        client = self._client(host)
        mine = self._of_client.get(client, set())
        if len(mine) >= self.limits.connections_per_client:
            if not self._make_room(each for each in self._waiting if each in mine):
                return Closing.CLIENT
        elif len(self._open) >= self.limits.connections and not self._make_room(self._waiting):
            return Closing.FULL
        self._add(connection, client)
        return None

    def take(self, connection: object, host: str | None) -> None:
        """Count a connection that goes on as something that never waits."""
        self._add(connection, self._client(host))

    def leave(self, connection: object) -> None:
        """Forget one that was taken."""
        client = self._open.pop(connection, "")
        if client:
            self._of_client[client].discard(connection)
            if not self._of_client[client]:
                del self._of_client[client]

    def gone(self, connection: Connection) -> None:
        """Forget one that was admitted or refused."""
        self._waiting.pop(connection, None)
        self._refusals.pop(connection, None)
        self.leave(connection)

    def waits(self, connection: Connection, seconds: float) -> None:
        """From now on only its client can go on, and has `seconds` for that."""
        self._waiting.pop(connection, None)
        if connection in self._open:
            self._waiting[connection] = monotonic() + seconds

    def works(self, connection: Connection) -> None:
        """From now on it does not wait for its client."""
        self._waiting.pop(connection, None)

    def tells(self, connection: Connection, seconds: float) -> bool:
        """Whether a refused connection may be told so, for so long; few may at the same time."""
        if connection in self._open:
            self.waits(connection, seconds)
            return True
        if len(self._refusals) >= _MOST_TOLD:
            return False
        self._refusals[connection] = monotonic() + seconds
        return True

    def closes(self, why: Closing) -> None:
        """Count a connection that is closed by the server."""
        self._metrics.closed(why.value)
        if why is not Closing.IDLE:
            self._unlogged[why.value] += 1

    async def watch(self) -> None:
        """Close what waits for too long, and log what was closed, until it is cancelled."""
        pause = min(_LOG_SECONDS, self.limits.request_seconds / 4, self.limits.idle_seconds / 4)
        logged = monotonic()
        try:
            while True:
                await asyncio.sleep(pause)
                now = monotonic()
                self._close_overdue(now)
                if now - logged >= _LOG_SECONDS:
                    logged = now
                    self._log()
        finally:
            self._log()

    def _close_overdue(self, now: float) -> None:
        for waiting in (self._waiting, self._refusals):
            for connection in [each for each, end in waiting.items() if end <= now]:
                waiting.pop(connection, None)
                connection.overdue()

    def _log(self) -> None:
        """One line, however many there were."""
        if self._unlogged:
            reasons = ", ".join(f"{why} {count}" for why, count in self._unlogged.items())
            log.warning("closed %d connections: %s", self._unlogged.total(), reasons)
            self._unlogged.clear()

    def _client(self, host: str | None) -> str:
        return "" if host is None or self._is_exempt(host) else network_key(host)

    def _add(self, connection: object, client: str) -> None:
        self._open[connection] = client
        if client:
            self._of_client[client].add(connection)

    def _make_room(self, candidates: Iterable[Connection]) -> bool:
        for connection in candidates:
            if connection.evict():
                # At once, as others may come before its end is known.
                self._waiting.pop(connection, None)
                self.closes(Closing.ROOM)
                return True
        return False
