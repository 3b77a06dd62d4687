"""The liquidity provision stream over HTTP, a JSON object a line, and over WebSocket, one a frame.

Nothing is sent where nothing happens. A reader is watched: one that leaves is forgotten at once,
one that takes nothing for too long is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from api.core.api_errors import ApiError, Code, DeadlineError
from api.core.descriptors import message
from api.http.answers import JSON, client_key, departure, room_of
from api.http.calls import read_query
from api.http.parameters import QueryPairs, parse_query, read_request, time_limit
from api.operations import STREAM
from api.queries.liquidity import ProvisionFilter
from api.queries.messages import error_json, record_json
from api.queries.pagination import Record
from api.service import Service

_HEADERS = (
    (b"content-type", JSON),
    (b"cache-control", b"no-store"),
    # A proxy that collects an answer before it passes it on would keep the stream for itself.
    (b"x-accel-buffering", b"no"),
)
_PROVISION = message("vega.LiquidityProvision")
_TRY_AGAIN_LATER = 1013
_POLICY_VIOLATION = 1008  # of a request that is wrong however often it comes
# A message or two, and what a connection keeps of them.
_ROOM_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class ProvisionStream:
    """The endpoint, for both protocols."""

    service: Service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader."""
        if scope["type"] == "websocket":
            await self._over_websocket(scope, receive, send)
        else:
            await self._over_http(scope, receive, send)

    async def _over_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        criteria, seconds = _asked(scope, await read_query(scope, receive))
        self.service.snapshots.check_rows()
        with self.service.slots.taken(client_key(scope)):
            room_of(scope).take(_ROOM_BYTES)
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
            # Sent at once: a reader should know that it is connected before anything happens.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            lines = self._lines(criteria, seconds)
            if await self._pump(lines, _body, receive, send):
                await send({"type": "http.response.body"})

    async def _over_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        protocol = "Bearer" if scope["subprotocols"][:1] == ["Bearer"] else None
        await send({"type": "websocket.accept", "subprotocol": protocol})
        code = _TRY_AGAIN_LATER
        try:
            criteria, seconds = _asked(scope, parse_query(scope["query_string"]))
            with self.service.slots.taken(client_key(scope)):
                room_of(scope).take(_ROOM_BYTES)
                lines = self._lines(criteria, seconds)
                if not await self._pump(lines, _frame, receive, send):
                    return
        except ApiError as error:
            await send(_frame(_error_line(error)))
            if error.code is Code.INVALID_ARGUMENT:
                code = _POLICY_VIOLATION
        await send({"type": "websocket.close", "code": code})

    async def _lines(
        self, criteria: ProvisionFilter, seconds: float | None
    ) -> AsyncGenerator[bytes]:
        """Yield lines for one reader for so many seconds; the last one says why it must go."""
        end = None if seconds is None else asyncio.get_running_loop().time() + seconds
        async with aclosing(self.service.feed.batches(criteria, _json)) as batches:
            try:
                while True:
                    async with asyncio.timeout_at(end):
                        batch = await anext(batches, None)
                    if batch is None:
                        return
                    yield b'{"result":{"liquidityProvisions":[%b]}}\n' % b",".join(batch)
            except TimeoutError:
                yield _error_line(DeadlineError())
            except ApiError as error:
                yield _error_line(error)

    async def _pump(
        self,
        lines: AsyncGenerator[bytes],
        message: Callable[[bytes], Message],
        receive: Receive,
        send: Send,
    ) -> bool:
        """Send lines until they end; False where the reader left before."""

        async def pump() -> None:
            async for line in lines:
                await send(message(line))

        sending, gone = asyncio.create_task(pump()), asyncio.create_task(departure(receive)())
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                return False
            await sending
            return True
        finally:
            sending.cancel()
            gone.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            await lines.aclose()


def _asked(scope: Scope, query: QueryPairs) -> tuple[ProvisionFilter, float | None]:
    """What a reader wants, and for how long."""
    return ProvisionFilter.of(read_request(STREAM, query)), time_limit(scope)


def _json(record: Record) -> bytes:
    return record_json(_PROVISION, record)


def _error_line(error: ApiError) -> bytes:
    return b'{"error":%b}\n' % error_json(error)


def _body(line: bytes) -> Message:
    return {"type": "http.response.body", "body": line, "more_body": True}


def _frame(line: bytes) -> Message:
    return {"type": "websocket.send", "text": line.decode().rstrip("\n")}
