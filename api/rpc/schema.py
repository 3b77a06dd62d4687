"""The messages and services of the wire, from `protos.binpb` (`make protos` writes it).

They live in a pool of their own: in the default one they would meet other releases of the same
names, which a process may have imported with some client's generated code.
"""

from __future__ import annotations

from importlib.resources import files

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

TRADING_DATA = "datanode.api.v2.TradingDataService"
CORE = "vega.api.v1.CoreService"


def _read_pool() -> DescriptorPool:
    pool = DescriptorPool()
    compiled = files("api.rpc").joinpath("protos.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(compiled).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _read_pool()


def message_class(name: str) -> type[Message]:
    """The class of a message, by its full name."""
    return GetMessageClass(POOL.FindMessageTypeByName(name))


def service(name: str) -> ServiceDescriptor:
    """A service, by its full name."""
    found: ServiceDescriptor = POOL.FindServiceByName(name)
    return found
