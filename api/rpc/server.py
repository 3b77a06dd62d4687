"""The gRPC server of one process, on the event loop that HTTP is served on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

import grpc
from grpc.aio import Server

from api.core.server_settings import ServeSettings
from api.core.sockets import grpc_address
from api.operations import CALLS, EXPORT, STREAM
from api.rpc.calls import Calls
from api.rpc.handlers import Handler, Handlers
from api.rpc.standard_services import HEALTH, REFLECTION, HealthService, Reflection
from api.service import Service
from transforms.errors import ConfigError

_Options = tuple[tuple[str, int], ...]
# Calls that are no streams, beside as many streams as a client may have; more wait at the client.
_CALLS_AT_ONCE = 100
_METADATA_BYTES = 16 * 2**10
# How many HTTP/2 counts for a name with its value, beside their own.
_PAIR_BYTES = 32


def _options(settings: ServeSettings) -> _Options:
    """How the library serves."""
    limits, connections = settings.limits, settings.connections
    return (
        # The kernel spreads connections over the processes that share the port.
        ("grpc.so_reuseport", 1),
        ("grpc.max_concurrent_streams", limits.streams_per_client + _CALLS_AT_ONCE),
        # With a lower first limit it would refuse what lies between the two now and then.
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
        ("grpc.max_receive_message_length", connections.body_bytes),
        ("grpc.max_allowed_incoming_connections", connections.connections),
        ("grpc.server_handshake_timeout_ms", _milliseconds(connections.request_seconds)),
        # Until a peer acknowledges the limit of metadata the library takes 16 MiB of it.
        ("grpc.http2.settings_timeout", _milliseconds(connections.request_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(connections.idle_seconds)),
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
    """Every method with its handler."""

    def __init__(self, service: Service) -> None:
        self._handlers = Handlers(service.settings, service.metrics, service.unread)
        self._by_path = dict(self._all(service))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        """The handler of a call."""
        path = handler_call_details.method
        if _counted(handler_call_details.invocation_metadata) >= _METADATA_BYTES:
            return self._handlers.oversized(path)
        return self._by_path.get(path) or self._handlers.unknown(path)

    def _all(self, service: Service) -> Iterator[tuple[str, Handler]]:
        handlers, calls = self._handlers, Calls(service)
        for operation in CALLS:
            path = f"/{operation.method}"
            yield path, handlers.unary(operation.name, path, calls.unary(operation))
        for operation, answer in ((EXPORT, calls.export), (STREAM, calls.observe)):
            path = f"/{operation.method}"
            yield path, handlers.streaming(operation.name, path, answer)
        health, check, watch = HealthService(service), f"/{HEALTH}/Check", f"/{HEALTH}/Watch"
        yield check, handlers.unary("health", check, health.check, public=True)
        yield watch, handlers.streaming("health_watch", watch, health.watch, public=True)
        reflection = Reflection()
        for path in (f"/{name}/ServerReflectionInfo" for name in REFLECTION):
            yield path, handlers.bidirectional("reflection", path, reflection.answer)


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
    address = grpc_address(listen.host, listen.grpc_port)
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
