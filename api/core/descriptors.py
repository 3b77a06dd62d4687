"""The messages and services of the network, from `protos.binpb` (`make protos` writes it).

They live in a pool of their own: in the default one they would meet other releases of the same
names, which a process may have imported with some client's generated code.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from importlib.resources import files

from google.protobuf.descriptor import FieldDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as Wire
from google.protobuf.message_factory import GetMessageClass

TRADING_DATA = "datanode.api.v2.TradingDataService"
CORE = "vega.api.v1.CoreService"


class ScalarType(Enum):
    """The types of single values that are not messages."""

    TEXT = auto()
    WHOLE64 = auto()
    WHOLE32 = auto()
    TRUTH = auto()
    ENUM = auto()
    BYTES = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its names, its type, whether it is a list or may be absent in JSON."""

    name: str
    json_name: str
    type: ScalarType | Message
    repeated: bool
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message type, by its full name, with its fields as declared. There is one object of each.

    Described for those who write records, for whom descriptors would be slow to ask.
    """

    name: str
    fields: tuple[Field, ...]


_KINDS = {
    FieldDescriptor.TYPE_INT32: ScalarType.WHOLE32,
    FieldDescriptor.TYPE_STRING: ScalarType.TEXT,
    FieldDescriptor.TYPE_INT64: ScalarType.WHOLE64,
    FieldDescriptor.TYPE_UINT64: ScalarType.WHOLE64,
    FieldDescriptor.TYPE_UINT32: ScalarType.WHOLE32,
    FieldDescriptor.TYPE_BOOL: ScalarType.TRUTH,
    FieldDescriptor.TYPE_ENUM: ScalarType.ENUM,
    FieldDescriptor.TYPE_BYTES: ScalarType.BYTES,
}


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
    return Message(name, tuple(map(_field, POOL.FindMessageTypeByName(name).fields)))


@cache
def method_messages(path: str) -> tuple[Message, Message]:
    """What is asked of a method, and what it answers; `path` is `<service>/<method>`."""
    service_name, _, name = path.partition("/")
    declared = service(service_name).methods_by_name[name]
    return message(declared.input_type.full_name), message(declared.output_type.full_name)


def _field(declared: FieldDescriptor) -> Field:
    kind = declared.message_type
    return Field(
        declared.name,
        declared.json_name,  # type: ignore[attr-defined]  # only its types lack it
        message(kind.full_name) if kind else _KINDS[declared.type],
        declared.is_repeated,
        # Of a choice one is set; what is declared `optional` is a choice of one.
        declared.containing_oneof is not None,
    )
