"""The gRPC server of one process, on the event loop that HTTP is served on.

To every call, whatever it asks, happens the same: its token, its errors, its line in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import grpc
from grpc.aio import AbortError, Server
from uvicorn.middleware.proxy_headers import _TrustedHosts as Addresses

from api.core.api_errors import ApiError, Code, FailedError, Reason, RefusedError
from api.core.clients import NEEDED, Keyring, bearer_token
from api.core.server_settings import BODY_BYTES, ServeSettings
from api.core.sockets import host_and_port
from api.core.telemetry import log
from api.operations import CALLS, EXPORT, STREAM
from api.rpc.call import Call, Context, Unary
from api.rpc.calls import Calls
from api.rpc.standard_services import HEALTH, REFLECTION, Reflection, check_health
from api.service import Service
from transforms.errors import ConfigError

_Result = TypeVar("_Result")
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Options = tuple[tuple[str, int], ...]
# Calls that are no streams, beside as many streams as a client may have; more wait at the client.
_CALLS_AT_ONCE = 100
_METADATA_BYTES = 16 * 2**10
# How many HTTP/2 counts for a name with its value, beside their own.
_PAIR_BYTES = 32


def _options(settings: ServeSettings) -> _Options:
    """How the library serves."""
    limits = settings.limits
    return (
        # The kernel spreads connections over the processes that share the port.
        ("grpc.so_reuseport", 1),
        ("grpc.max_concurrent_streams", limits.streams_per_client + _CALLS_AT_ONCE),
        # With a lower first limit it would refuse what lies between the two now and then.
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
        ("grpc.max_receive_message_length", BODY_BYTES),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.server_handshake_timeout_ms", _milliseconds(limits.request_seconds)),
        # Until a peer acknowledges the limit of metadata the library takes 16 MiB of it.
        ("grpc.http2.settings_timeout", _milliseconds(limits.request_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(limits.idle_seconds)),
        # A stream where nothing happens is silent: the peer is asked whether it is still there.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    )


def _milliseconds(seconds: float) -> int:
    # A number beyond 32 bits would be taken for something else.
    return max(1, min(2**31 - 1, round(seconds * 1000)))


def _counted(metadata: Iterable[tuple[str, str | bytes]]) -> int:
    """The size of metadata, as HTTP/2 counts it."""
    return sum(len(name) + len(value) + _PAIR_BYTES for name, value in metadata)


class Methods(grpc.GenericRpcHandler):
    """Every method with its handler; messages pass as they are, in bytes."""

    def __init__(self, service: Service) -> None:
        self._keyring = Keyring(service.settings.access.tokens)
        self._proxies = Addresses([*service.settings.listen.proxies])
        self._metrics = service.metrics
        self._unread = service.unread
        self._by_path = dict(self._all(service))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        """The handler of a call."""
        path = handler_call_details.method
        if _counted(handler_call_details.invocation_metadata) >= _METADATA_BYTES:
            # The client has ignored that it was told how much it may send.
            message = "the metadata size exceeds the limit: send less of it"
            return self._refused(path, Code.RESOURCE_EXHAUSTED, message)
        return self._by_path.get(path) or self._refused(
            path, Code.UNIMPLEMENTED, f"unknown method {path}"
        )

    def _all(self, service: Service) -> Iterator[tuple[str, Handler]]:
        calls = Calls(service)
        for operation in CALLS:
            yield self._unary(operation.name, operation.rpc_path, calls.unary(operation))
        yield self._streaming(EXPORT.name, EXPORT.rpc_path, calls.export)
        yield self._streaming(STREAM.name, STREAM.rpc_path, calls.observe)
        path, reflection = f"/{REFLECTION}/ServerReflectionInfo", Reflection()
        yield self._streaming("reflection", path, reflection.answer, several=True)

        async def check(data: bytes, _call: Call) -> bytes:
            return check_health(service.health, data)

        yield self._unary("health", f"/{HEALTH}/Check", check, public=True)

    def _unary(
        self, name: str, path: str, answer: Unary, *, public: bool = False
    ) -> tuple[str, Handler]:
        """A handler of calls that get one message; `public` ones need no token."""

        async def send(request: bytes, call: Call) -> bytes:
            body = call.count(await answer(request, call))
            await call.send_headers()
            return body

        return path, grpc.unary_unary_rpc_method_handler(self._attended(name, path, send, public))

    def _streaming(
        self,
        name: str,
        path: str,
        answer: Callable[[Any, Call], Awaitable[None]],
        *,
        several: bool = False,
    ) -> tuple[str, Handler]:
        """A handler of calls that get many messages, and send `several` where they do."""
        attended = self._attended(name, path, answer)
        if several:
            return path, grpc.stream_stream_rpc_method_handler(attended)
        return path, grpc.unary_stream_rpc_method_handler(attended)

    def _refused(self, path: str, code: Code, message: str) -> Handler:
        async def refuse(_requests: object, _call: Call) -> None:
            raise RefusedError(code, message)

        _, handler = self._streaming("other", path, refuse, several=True)
        return handler

    def _attended(
        self,
        name: str,
        path: str,
        answer: Callable[[Any, Call], Awaitable[_Result]],
        public: bool = False,
    ) -> Callable[[Any, Context], Awaitable[_Result]]:
        """Answers a call, or ends it with an error as its table says (spec 7.1)."""

        async def attend(request: Any, context: Context) -> _Result:  # noqa: ANN401 - bytes, or several
            call = Call(context, path, self._proxies, self._unread)
            try:
                if not public:
                    self._check_token(call)
                return await answer(request, call)
            except AbortError:
                raise
            except ApiError as error:
                await call.fail(error)
            except asyncio.CancelledError:
                call.left()
                raise
            except Exception:
                # The log has the traceback under the id that the answer gives.
                log.exception("a call failed unexpectedly")
                await call.fail(FailedError(Reason.UNEXPECTED, f"request {call.id}"))
            finally:
                call.finish(name, self._metrics)

        return attend

    def _check_token(self, call: Call) -> None:
        if not self._keyring.opens(bearer_token(call.given("authorization"))):
            raise RefusedError(Code.UNAUTHENTICATED, NEEDED)


@asynccontextmanager
async def rpc_running(service: Service) -> AsyncIterator[None]:
    """Serve gRPC for the length of a block, if it is switched on; a stop begins with the service's.

    Raises `ConfigError` where the port cannot be had.
    """
    listen = service.settings.listen
    if not listen.grpc:
        yield
        return
    server = grpc.aio.server(options=_options(service.settings))
    server.add_generic_rpc_handlers((Methods(service),))
    address = host_and_port(listen.host, listen.grpc_port)
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigError(f"cannot listen on {address} for gRPC: {error}") from error
    await server.start()
    stopped = asyncio.create_task(_stop_in_time(server, service))
    try:
        yield
    finally:
        service.stop()
        await stopped


async def _stop_in_time(server: Server, service: Service) -> None:
    """From the stop on: no new calls, and the running ones end, or are ended."""
    await service.stopping.wait()
    await server.stop(service.settings.limits.stop_seconds)
