"""The services that gRPC's own tools ask: health (grpc.health.v1), and reflection.

Reflection lets them list and call the methods without the `.proto` files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cache

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1.health_pb2 import DESCRIPTOR as HEALTH_FILE
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2 import DESCRIPTOR as ALPHA_FILE
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from api.core.api_errors import Code, RefusedError
from api.core.descriptors import CORE, POOL, TRADING_DATA
from api.rpc.call import Call
from api.rpc.wire import parse
from api.service import Service

HEALTH = "grpc.health.v1.Health"
_SERVED = ("", TRADING_DATA, CORE)
_ALPHA, _STABLE = "grpc.reflection.v1alpha", "grpc.reflection.v1"
REFLECTION = (f"{_ALPHA}.ServerReflection", f"{_STABLE}.ServerReflection")
"""The service under its two names; the messages are the same."""


class HealthService:
    """Serving where a snapshot is open and no stop is near, as `/ready` says it."""

    def __init__(self, service: Service) -> None:
        self._health = service.health
        self._stopping = service.stopping
        self._seconds = service.settings.limits.poll_seconds

    async def check(self, data: bytes, _call: Call) -> bytes:
        """Answer for now."""
        service = parse(HealthCheckRequest, data).service
        if service not in _SERVED:
            raise RefusedError(Code.NOT_FOUND, f"{service} is not served here")
        return self._answer(service)

    async def watch(self, data: bytes, call: Call) -> None:
        """Answer now and whenever it changes."""
        service = parse(HealthCheckRequest, data).service
        sent = b""
        while not (sent and self._stopping.is_set()):
            answer = self._answer(service)
            if answer != sent:
                await call.send(answer)
                sent = answer
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._seconds)
        await call.send(self._answer(service))

    def _answer(self, service: str) -> bytes:
        statuses = HealthCheckResponse.ServingStatus
        status = statuses.SERVING if self._health.is_ready else statuses.NOT_SERVING
        if service not in _SERVED:
            status = statuses.SERVICE_UNKNOWN
        answer: bytes = HealthCheckResponse(status=status).SerializeToString()
        return answer


class Reflection:
    """Describes every service that is served."""

    def __init__(self) -> None:
        served = (TRADING_DATA, CORE, HEALTH, *REFLECTION)
        self._servicer = aio.ReflectionServicer(served, _described())

    async def answer(self, requests: AsyncIterator[bytes], call: Call) -> None:
        """Answer each request in turn."""

        async def asked() -> AsyncIterator[ServerReflectionRequest]:
            async for data in requests:
                yield parse(ServerReflectionRequest, data)

        async for message in self._servicer.ServerReflectionInfo(asked(), None):
            await call.send(message.SerializeToString())


@cache
def _described() -> DescriptorPool:
    """The pool of our services with those that come with gRPC's library."""
    alpha = FileDescriptorProto.FromString(ALPHA_FILE.serialized_pb)
    for file in (FileDescriptorProto.FromString(HEALTH_FILE.serialized_pb), alpha, _stable(alpha)):
        POOL.AddSerializedFile(file.SerializeToString())
    return POOL


def _stable(alpha: FileDescriptorProto) -> FileDescriptorProto:
    """The service's own file as it is called since it is stable."""
    file = FileDescriptorProto.FromString(alpha.SerializeToString())
    file.name, file.package = "grpc/reflection/v1/reflection.proto", _STABLE
    for field in (field for message in file.message_type for field in message.field):
        if field.type_name:
            field.type_name = field.type_name.replace(_ALPHA, _STABLE)
    for method in file.service[0].method:
        method.input_type = method.input_type.replace(_ALPHA, _STABLE)
        method.output_type = method.output_type.replace(_ALPHA, _STABLE)
    return file
