"""Messages of the wire: requests from them, and records as them, without a detour through JSON.

A record becomes keyword arguments, a dictionary by field name, of which the protobuf library makes
the message in one go: numbers, texts and names of enum values are taken as they are, and None is
not set. What it refuses, which only hostile data holds, is then made to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from api.core.api_errors import MalformedParameterError
from api.core.descriptors import (
    OWN_FIELDS,
    Field,
    Message,
    Request,
    class_of,
)
from api.queries.messages import Converter, Dictionary, converter
from api.queries.operation import Operation
from api.queries.pagination import Record

Arguments = Dictionary

_WHOLE = {
    Field.TYPE_INT32: (32, True),
    Field.TYPE_UINT32: (32, False),
    Field.TYPE_INT64: (64, True),
    Field.TYPE_UINT64: (64, False),
}
"""Bits of a type of numbers, and whether it has a sign."""
Metadata = Callable[[str], str]
"""What a call brings besides its message, by name; nothing where it brings none."""
_MOST_DIGITS = 18


def write_record(message: Message, record: Record) -> bytes:
    """A record as a message."""
    return encoded(class_of(message), _converter(message)(record))


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


def read_request(operation: Operation, data: bytes, metadata: Metadata) -> Request:
    """The request that a client sent. Raises `MalformedParameterError`.

    For fields that only we have, metadata does as well.
    """
    asked = operation.method.input_type
    request = parse(class_of(asked), data)
    for field in _own_fields(asked):
        name = f"x-{field.name.replace('_', '-')}"
        if text := metadata(name):
            setattr(request, field.name, _read_metadata(field, name, text))
    return request


@cache
def _own_fields(message: Message) -> Sequence[Field]:
    return [field for field in message.fields if field.number >= OWN_FIELDS]


def _read_metadata(field: Field, name: str, text: str) -> str | int | bool:
    if field.type == Field.TYPE_BOOL:
        return text != "false"
    if field.type == Field.TYPE_STRING:
        return text
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise MalformedParameterError(f"{name} is {text!r:.60}, not a block")
    return int(text)
