"""The services that gRPC's own tools ask: health (grpc.health.v1), and reflection.

Reflection lets them list and call the methods without the `.proto` files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache

from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1.health_pb2 import DESCRIPTOR as HEALTH_FILE
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2 import DESCRIPTOR as REFLECTION_FILE
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from api.core.api_errors import Code, RefusedError
from api.core.descriptors import CORE, POOL, TRADING_DATA
from api.core.health import Health
from api.rpc.call import Call
from api.rpc.wire import parse

HEALTH = "grpc.health.v1.Health"
_SERVED = ("", TRADING_DATA, CORE)
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


def check_health(health: Health, data: bytes) -> bytes:
    """Serving where a snapshot is open and no stop is near, as `/ready` says it."""
    service = parse(HealthCheckRequest, data).service
    if service not in _SERVED:
        raise RefusedError(Code.NOT_FOUND, f"{service} is not served here")
    statuses = HealthCheckResponse.ServingStatus
    status = statuses.SERVING if health.is_ready else statuses.NOT_SERVING
    answer: bytes = HealthCheckResponse(status=status).SerializeToString()
    return answer


class Reflection:
    """Describes every service that is served."""

    def __init__(self) -> None:
        served = (TRADING_DATA, CORE, HEALTH, REFLECTION)
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
    for file in (HEALTH_FILE, REFLECTION_FILE):
        POOL.AddSerializedFile(file.serialized_pb)
    return POOL
