"""One call: who calls, what is sent before, besides and after its messages, and the log of it.

An error is a code, a message, and the detail as `google.rpc.Status` (spec 7.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from time import perf_counter
from typing import Any, NoReturn, TypeAlias
from urllib.parse import unquote

from grpc import StatusCode
from grpc.aio import AbortError, BaseError, ServicerContext
from uvicorn.middleware.proxy_headers import _TrustedHosts as Addresses

from api.core.api_errors import ApiError, Code
from api.core.clients import Room, Unread, network_key
from api.core.descriptors import message_class
from api.core.telemetry import Metrics, request_id
from api.rpc.wire import encoded

Context: TypeAlias = "ServicerContext[Any, Any]"
Unary: TypeAlias = "Callable[[bytes, Call], Awaitable[bytes]]"
"""Answers a request with a message."""
_RETRY = ("retry-after", "1")
_ID = "x-request-id"
# A deadline reaches us as so many seconds from now on, so ours is later than the client's own.
_LATE_SECONDS = 0.25
_DETAILS = "grpc-status-details-bin"
_TYPE_URL = "type.googleapis.com/vega.ErrorDetail"
# Clients refuse metadata beyond 8 KiB altogether, and a third is added on the way.
_MOST_TEXT = 1000

_STATUS = message_class("google.rpc.Status")
_DETAIL = message_class("vega.ErrorDetail")
_CODES = {code.value[0]: code for code in StatusCode}


def caller(peer: str, forwarded: str, proxies: Addresses) -> str:
    """The client's address, from gRPC's name of the peer and the `x-forwarded-for` it sent."""
    host = peer_host(peer)
    if not forwarded or host not in proxies:
        return host
    return proxies.get_trusted_client_address(forwarded)[0]


def peer_host(peer: str) -> str:
    """The address in gRPC's name of a peer, such as `ipv4:127.0.0.1:5000`."""
    return unquote(peer.partition(":")[2]).rpartition(":")[0].strip("[]")


class Call:
    """A call of the method at `path`, from its begin to its end."""

    def __init__(self, context: Context, path: str, proxies: Addresses, unread: Unread) -> None:
        sent = context.invocation_metadata() or ()
        self._metadata = {name: value for name, value in sent if isinstance(value, str)}
        self._context = context
        self._path = path
        self._started = perf_counter()
        self._sent = 0
        self._code = Code.OK
        self._headers_sent = False
        self.id = request_id(self.given(_ID))
        self._address = caller(context.peer() or "", self.given("x-forwarded-for"), proxies)
        self._headers = [(_ID, self.id)]
        self._room = Room(unread, self.client)
        context.add_done_callback(self._end)  # type: ignore[arg-type]  # it is no protocol there

    def _end(self, _context: Context) -> None:
        """The client has taken everything, or left."""
        self._room.close()

    def given(self, name: str) -> str:
        """The metadata of a name that the client sent, else nothing."""
        return self._metadata.get(name, "")

    @property
    def client(self) -> str:
        """Whose bucket and slots the call takes from."""
        return network_key(self._address)

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the client's deadline; None where it gave none."""
        return self._context.time_remaining()

    def add_headers(self, headers: Iterable[tuple[str, str]]) -> None:
        """Add to the metadata that goes before the first message, or the error."""
        self._headers += headers

    async def send_headers(self) -> None:
        """Send that metadata."""
        self._headers_sent = True
        with _as_cancelled():
            await self._context.send_initial_metadata(tuple(self._headers))

    def take_room(self, message: bytes) -> None:
        """Take room for a message. Raises what refuses it; see `api.core.clients`."""
        self._room.take(len(message))

    async def send(self, message: bytes) -> None:
        """Send one message of several; returns when the client can take more."""
        self.take_room(message)
        with _as_cancelled():
            await self._context.write(message)
        self._sent += len(message)

    def count(self, message: bytes) -> bytes:
        """Count the only message of a call, for which there has to be room."""
        self.take_room(message)
        self._sent += len(message)
        return message

    async def fail(self, error: ApiError) -> NoReturn:
        """End the call with an error; returns never, and not before the client has taken it."""
        self._code = error.code
        if error.code is Code.UNAVAILABLE:
            self.add_headers([_RETRY])
        if not self._headers_sent:
            await self.send_headers()
        code, message = _CODES[error.code], _shown(error.message)
        with _as_cancelled():
            await self._context.abort(code, message, _trailers(error))

    def left(self) -> None:
        """Note that nobody waits for the call any more: the client left, or its time is over."""
        remaining = self.seconds_left
        late = remaining is not None and remaining < _LATE_SECONDS
        self._code = Code.DEADLINE_EXCEEDED if late else Code.CANCELLED

    def finish(self, operation: str, metrics: Metrics) -> None:
        """Count the call and write it into the log."""
        about = {
            "client": self._address,
            "method": "GRPC",
            "path": self._path,
            "agent": self.given("user-agent"),
        }
        metrics.served(operation, self._code.name, self._started, self._sent, about)


@contextmanager
def _as_cancelled() -> Iterator[None]:
    """Where nothing can be sent the client is gone: a cancelled call, not a failure of ours."""
    try:
        yield
    except AbortError:
        raise
    except BaseError as error:
        raise asyncio.CancelledError from error


def _shown(text: str) -> str:
    """A text of an error, of a length that metadata may have, and of any characters."""
    short = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
    return short.encode("utf-8", "replace").decode()


def _trailers(error: ApiError) -> tuple[tuple[str, bytes], ...]:
    """The metadata after an error: its detail, where there is one."""
    if error.detail is None:
        return ()
    code, message, inner = astuple(error.detail)
    detail = encoded(_DETAIL, {"code": code, "message": _shown(message), "inner": _shown(inner)})
    details = [{"type_url": _TYPE_URL, "value": detail}]
    status = {"code": int(error.code), "message": _shown(error.message), "details": details}
    return ((_DETAILS, encoded(_STATUS, status)),)
