"""Requests from messages of the wire; the same values as REST reads from its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from api.core.api_errors import MalformedParameterError
from api.core.descriptors import message_class, method_messages
from api.queries.operation import Group, Kind, Operation, Parameter, Parameters
from api.queries.requests import TABLES

_Request = TypeVar("_Request")
Metadata = Callable[[str], str]
"""What a call brings besides its message, by name; nothing where it brings none."""

_MOST_DIGITS = 18


def parse(wire: type[Wire], data: bytes) -> Any:  # noqa: ANN401 - its fields are in the `.proto` files
    """The message that a client sent. Raises `MalformedParameterError`."""
    try:
        return wire.FromString(data)
    except DecodeError:
        name = wire.DESCRIPTOR.full_name
        raise MalformedParameterError(f"the request is no {name}") from None


def read_request(operation: Operation[_Request], data: bytes, metadata: Metadata) -> _Request:
    """The request that a client sent. Raises `MalformedParameterError`."""
    wire = message_class(method_messages(operation.method)[0].name)
    values = _values(parse(wire, data), operation.parameters)
    for parameter in operation.parameters:
        if isinstance(parameter, Parameter) and (text := metadata(parameter.metadata)):
            values[parameter.name] = _read_metadata(parameter, text)
    return operation.request_of(values)


def _values(message: Wire, parameters: Parameters) -> dict[str, Any]:
    """What is set of the parameters that the message has."""
    fields = message.DESCRIPTOR.fields_by_name
    values: dict[str, Any] = {}
    for parameter in parameters:
        name = parameter.name
        if name not in fields or (fields[name].has_presence and not message.HasField(name)):
            continue
        value = getattr(message, name)
        if isinstance(parameter, Group):
            value = _values(value, parameter.parameters)
        elif parameter.kind is Kind.TABLE and not 0 <= value < len(TABLES):
            raise MalformedParameterError(f'parsing field "{name}": "{value}" is not a valid value')
        values[name] = value
    return values


def _read_metadata(parameter: Parameter, text: str) -> int | bool:
    if parameter.kind is Kind.TRUTH:
        return text != "false"
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise MalformedParameterError(f"{parameter.metadata} is {text!r:.60}, not a block")
    return int(text)
