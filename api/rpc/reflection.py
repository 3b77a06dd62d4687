"""Server reflection, so that tools can list and call the methods without the `.proto` files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1.health_pb2 import DESCRIPTOR as HEALTH_FILE
from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2 import DESCRIPTOR as ALPHA_FILE
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from api.core.descriptors import CORE, POOL, TRADING_DATA
from api.rpc import health_service
from api.rpc.call import Call
from api.rpc.decoding import parse

_ALPHA, _STABLE = "grpc.reflection.v1alpha", "grpc.reflection.v1"
NAMES = (f"{_ALPHA}.ServerReflection", f"{_STABLE}.ServerReflection")
"""The service under its two names; the messages are the same."""


class Reflection:
    """Describes every service that is served."""

    def __init__(self) -> None:
        served = (TRADING_DATA, CORE, health_service.NAME, *NAMES)
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
