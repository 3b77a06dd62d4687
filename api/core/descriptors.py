"""The messages and services of the network, from `protos.binpb` (`make protos` writes it).

They live in a pool of their own: in the default one they would meet other releases of the same
names, which a process may have imported with some client's generated code.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as Wire
from google.protobuf.message_factory import GetMessageClass

TRADING_DATA = "datanode.api.v2.TradingDataService"
CORE = "vega.api.v1.CoreService"
Message: TypeAlias = Descriptor
"""A message type."""
Field: TypeAlias = FieldDescriptor
"""One field of one."""


def _read_pool() -> DescriptorPool:
    pool = DescriptorPool()
    compiled = files("api.core").joinpath("protos.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(compiled).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _read_pool()


@cache
def message_class(name: str) -> type[Wire]:
    """The class of a message, by its full name."""
    return GetMessageClass(POOL.FindMessageTypeByName(name))


def service(name: str) -> ServiceDescriptor:
    """A service, by its full name."""
    descriptor: ServiceDescriptor = POOL.FindServiceByName(name)
    return descriptor


@cache
def message(name: str) -> Message:
    """A message type, by its full name."""
    descriptor: Message = POOL.FindMessageTypeByName(name)
    return descriptor


@cache
def method_messages(path: str) -> tuple[Message, Message]:
    """What is asked of a method, and what it answers; `path` is `<service>/<method>`."""
    service_name, _, name = path.partition("/")
    declared = service(service_name).methods_by_name[name]
    return message(declared.input_type.full_name), message(declared.output_type.full_name)


def is_optional(field: Field) -> bool:
    """Whether a field may be absent: of a choice one is set; `optional` is a choice of one."""
    return field.containing_oneof is not None


def json_name(field: Field) -> str:
    """The name of a field in JSON."""
    name: str = field.json_name  # type: ignore[attr-defined]  # only its types lack it
    return name
