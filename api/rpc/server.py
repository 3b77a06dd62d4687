"""The gRPC server of one process, on the event loop that HTTP is served on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import grpc
from grpc.aio import Server

from api.core.sockets import grpc_address
from api.rpc.answers import answering
from api.rpc.handlers import Handler, Handlers
from api.rpc.health import NAME as HEALTH
from api.rpc.health import HealthService
from api.rpc.methods import METHODS
from api.rpc.reflection import NAMES as REFLECTION
from api.rpc.reflection import Reflection
from api.rpc.streams import EXPORT, OBSERVE, Streams
from api.service import Service
from transforms.errors import ConfigError

# The kernel spreads connections over the processes that share the port.
_OPTIONS = (
    ("grpc.so_reuseport", 1),
    # More calls at once on one connection wait at the client.
    ("grpc.max_concurrent_streams", 1000),
    # A stream where nothing happens is silent: the peer is asked whether it is still there.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class Methods(grpc.GenericRpcHandler):
    """Every method with its handler."""

    def __init__(self, service: Service) -> None:
        self._handlers = Handlers(service.settings, service.metrics)
        self._by_path = dict(self._all(service))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        """The handler of a call."""
        path = handler_call_details.method
        return self._by_path.get(path) or self._handlers.unknown(path)

    def _all(self, service: Service) -> Iterator[tuple[str, Handler]]:
        handlers = self._handlers
        for method in METHODS:
            answer = answering(method, service.calls)
            yield method.path, handlers.unary(method.name, method.path, answer)
        streams = Streams(service)
        yield EXPORT, handlers.streaming("export", EXPORT, streams.export)
        name = "liquidity_provision_stream"
        yield OBSERVE, handlers.streaming(name, OBSERVE, streams.observe)
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
    server = grpc.aio.server(options=_OPTIONS)
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
