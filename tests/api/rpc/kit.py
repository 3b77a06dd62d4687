"""A gRPC client of our own messages, and what a message is in the JSON of REST."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from api.core.descriptors import CORE, TRADING_DATA, message_class, service
from tests.api.server_kit import Served

SECONDS = 30
Json = Any
_Result = TypeVar("_Result")
_LONG = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64)
_CONNECTING = (
    ("grpc.use_local_subchannel_pool", 1),
    # A process tells its address a moment before it answers there.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
)
_DETAIL_URL = "type.googleapis.com/vega.ErrorDetail"


@dataclass(frozen=True)
class Answer:
    """A message and the metadata before it."""

    message: Any
    headers: Mapping[str, str | bytes]


@dataclass
class FailedCallError(Exception):
    """An error as a client sees it; `details` as in the body of REST."""

    code: int
    message: str
    details: list[Json]
    headers: Mapping[str, str | bytes]

    @property
    def body(self) -> Json:
        """The body of the same error in REST."""
        return {"code": self.code, "message": self.message, "details": self.details}


class Client:
    """Calls methods by name, with a message or its fields."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def ask(
        self,
        method: str,
        request: Message | None = None,
        /,
        *,
        timeout: float = SECONDS,
        metadata: Mapping[str, str] | None = None,
        **fields: object,
    ) -> Answer:
        """Call a method that answers with one message. Raises `FailedCallError`."""
        path, asked, answered = declared(method)
        call = self._channel.unary_unary(
            path,
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        given = request if request is not None else asked(**fields)
        try:
            message, done = call.with_call(given, timeout, metadata=tuple((metadata or {}).items()))
        except grpc.RpcError as error:
            raise failed(error) from None
        return Answer(message, dict(done.initial_metadata()))

    def stream(
        self,
        method: str,
        request: Message | None = None,
        /,
        *,
        timeout: float = SECONDS,
        metadata: Mapping[str, str] | None = None,
        **fields: object,
    ) -> Any:
        """Call a method that answers with many messages; iterate with `messages`."""
        path, asked, answered = declared(method)
        call = self._channel.unary_stream(
            path,
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        given = request if request is not None else asked(**fields)
        return call(given, timeout, metadata=tuple((metadata or {}).items()))


@contextmanager
def client(port: int, *options: tuple[str, Any]) -> Iterator[Client]:
    """A client with a connection of its own, once the server is there."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", (*_CONNECTING, *options)) as channel:
        grpc.channel_ready_future(channel).result(SECONDS)
        yield Client(channel)


@contextmanager
def client_of(served: Served) -> Iterator[Client]:
    """A client of a server in this process."""
    with client(served.grpc_port) as found:
        yield found


def declared(method: str) -> tuple[str, type[Message], type[Message]]:
    """A method's path, and the messages that are asked and answered."""
    name = CORE if method == "GetSpamStatistics" else TRADING_DATA
    found = service(name).methods_by_name[method]
    asked, answered = found.input_type.full_name, found.output_type.full_name
    return f"/{name}/{method}", message_class(asked), message_class(answered)


def messages(call: Any) -> Iterator[Any]:
    """The messages of a stream. Raises `FailedCallError` where it ends with an error."""
    try:
        yield from call
    except grpc.RpcError as error:
        raise failed(error) from None


def outcome(ask: Callable[[], _Result]) -> _Result | FailedCallError:
    """What a call returns, or the error that it ends with."""
    try:
        return ask()
    except FailedCallError as error:
        return error


def failed(error: Any) -> FailedCallError:
    """What a client sees of an error."""
    sent = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    details = []
    if sent is not None:
        status: Any = message_class("google.rpc.Status").FromString(sent)
        assert (status.code, status.message) == (error.code().value[0], error.details())
        for detail in status.details:
            assert detail.type_url == _DETAIL_URL
            read = message_class("vega.ErrorDetail").FromString(detail.value)
            details.append({"@type": _DETAIL_URL, **as_json(read)})
    headers = dict(error.initial_metadata() or ())
    return FailedCallError(error.code().value[0], error.details(), details, headers)


def as_json(message: Any) -> Json:
    """A message as REST shows it (decision 12)."""
    shown: dict[str, Json] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        is_message = field.message_type is not None
        if field.is_repeated:
            shown[field.json_name] = [_value_json(field, item) for item in value]
        elif field.has_presence and not message.HasField(field.name):
            if is_message and field.containing_oneof is None:
                shown[field.json_name] = None
        else:
            shown[field.json_name] = _value_json(field, value)
    return shown


def _value_json(field: FieldDescriptor, value: Any) -> Json:
    if field.message_type is not None:
        return as_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    return str(value) if field.type in _LONG else value
