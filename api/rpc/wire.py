"""Messages of the wire: requests from them, and records as them, without a detour through JSON.

A request has the same values as REST reads from its parameters. A record becomes keyword arguments,
a dictionary by field name, of which the protobuf library makes the message in one go: numbers,
texts and names of enum values are taken as they are, and None is not set. What it refuses, which
only hostile data holds, is then made to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from api.core.api_errors import MalformedParameterError
from api.core.descriptors import Field, Message, message_class, method_messages
from api.queries.messages import Converter, Dictionary, converter
from api.queries.operation import Operation
from api.queries.pagination import Record
from api.queries.parameters import Group, Kind, Parameter, Parameters, request_of
from api.queries.requests import TABLES

Arguments = Dictionary

_WHOLE = {
    Field.TYPE_INT32: (32, True),
    Field.TYPE_UINT32: (32, False),
    Field.TYPE_INT64: (64, True),
    Field.TYPE_UINT64: (64, False),
}
"""Bits of a type of numbers, and whether it has a sign."""
_Request = TypeVar("_Request")
Metadata = Callable[[str], str]
"""What a call brings besides its message, by name; nothing where it brings none."""
_MOST_DIGITS = 18


def write_record(message: Message, record: Record) -> bytes:
    """A record as a message."""
    return encoded(message_class(message.full_name), _converter(message)(record))


def encoded(wire: type[Wire], arguments: Arguments) -> bytes:
    """The bytes of a message with these arguments."""
    try:
        return wire(**arguments).SerializeToString()
    except ValueError:
        return wire(**_fitted(wire.DESCRIPTOR, arguments)).SerializeToString()


@cache
def _converter(message: Message) -> Converter:
    return converter(message, lambda field: field.name, {Field.TYPE_BYTES: bytes.fromhex})


def _fitted(descriptor: Any, arguments: Arguments) -> Arguments:  # noqa: ANN401 - of either implementation
    """The arguments with every value made to fit its field of the message described."""
    fitted: Arguments = {}
    for name, value in arguments.items():
        field = descriptor.fields_by_name[name]
        several = isinstance(value, list)
        fitted[name] = [_fitting(field, v) for v in value] if several else _fitting(field, value)
    return fitted


def _fitting(field: Field, value: Any) -> Any:  # noqa: ANN401 - of any field's type
    if isinstance(value, dict):
        return _fitted(field.message_type, value)
    if field.type == Field.TYPE_ENUM and value is not None:
        return _enum_number(field, value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if field.type in _WHOLE and value is not None:
        return _wrapped(int(value), *_WHOLE[field.type])
    return value


def _enum_number(field: Field, value: str | int) -> int:
    """The number of an enum's value; 0 for a name that the enum does not know."""
    if isinstance(value, int):
        return _wrapped(value, 32, signed=True)
    member = field.enum_type.values_by_name.get(value)
    return 0 if member is None else member.number


def _wrapped(value: int, bits: int, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def parse(wire: type[Wire], data: bytes) -> Any:  # noqa: ANN401 - its fields are in the `.proto` files
    """The message that a client sent. Raises `MalformedParameterError`."""
    try:
        return wire.FromString(data)
    except DecodeError:
        name = wire.DESCRIPTOR.full_name
        raise MalformedParameterError(f"the request is no {name}") from None


def read_request(operation: Operation[_Request], data: bytes, metadata: Metadata) -> _Request:
    """The request that a client sent. Raises `MalformedParameterError`."""
    wire = message_class(method_messages(operation.method)[0].full_name)
    values = _values(parse(wire, data), operation.parameters)
    for parameter in operation.parameters:
        if isinstance(parameter, Parameter) and (text := metadata(parameter.metadata)):
            values[parameter.name] = _read_metadata(parameter, text)
    return request_of(operation.request, values)


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
