"""The messages and services of the network, from `protos.binpb` (`make protos` writes it).

They live in a pool of their own: in the default one they would meet other releases of the same
names, which a process may have imported with some client's generated code.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, TypeAlias

from google.protobuf.descriptor import (
    Descriptor,
    FieldDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)
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
Method: TypeAlias = MethodDescriptor
"""A method of gRPC with the messages that it takes and answers."""
Request: TypeAlias = Any
"""A message that a client asks with: values of the right types, unchecked."""

OWN_FIELDS = 1001
"""The first number of fields that the network does not have."""


def _compiled() -> FileDescriptorSet:
    return FileDescriptorSet.FromString(files("api.core").joinpath("protos.binpb").read_bytes())


def _read_pool() -> DescriptorPool:
    pool = DescriptorPool()
    for file in _compiled().file:
        file.ClearField("source_code_info")
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _read_pool()


def comments() -> Iterator[tuple[str, str]]:
    """The full names of fields and methods, with the comments on them."""
    for file in _compiled().file:
        for place in file.source_code_info.location:
            # By the numbers of fields of `FileDescriptorProto` and of what is in it.
            match tuple(place.path):
                case (4, at, 2, number):
                    above: Any = file.message_type[at]
                    name = above.field[number].name
                case (6, at, 2, number):
                    above = file.service[at]
                    name = above.method[number].name
                case _:
                    continue
            comment = " ".join(place.leading_comments.split())
            yield f"{file.package}.{above.name}.{name}", comment


def service(name: str) -> ServiceDescriptor:
    """A service, by its full name."""
    descriptor: ServiceDescriptor = POOL.FindServiceByName(name)
    return descriptor


def message(name: str) -> Message:
    """A message type, by its full name."""
    descriptor: Message = POOL.FindMessageTypeByName(name)
    return descriptor


def class_of(message: Message) -> type[Wire]:
    """The class of a message type."""
    return GetMessageClass(message)


def message_class(name: str) -> type[Wire]:
    """The class of a message, by its full name."""
    return class_of(message(name))


def given(message: Request) -> dict[str, Any]:
    """The values that are set in a message, by the names of their fields."""
    return {field.name: value for field, value in message.ListFields()}


def is_optional(field: Field) -> bool:
    """Whether a field may be absent: of a choice one is set; `optional` is a choice of one."""
    return field.containing_oneof is not None


def json_name(field: Field) -> str:
    """The name of a field in JSON."""
    name: str = field.json_name  # type: ignore[attr-defined]  # only its types lack it
    return name
