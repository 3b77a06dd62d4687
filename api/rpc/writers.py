"""Records as messages of the wire, without a detour through JSON.

A record becomes keyword arguments, a dictionary by field name, of which the protobuf library makes
the message in one go: numbers, texts and names of enum values are taken as they are, and None is
not set. What it refuses, which only hostile data holds, is then made to fit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as Wire

from api.core.descriptors import Message, ScalarType, message_class
from api.queries.dictionaries import Converter, Dictionary, converter
from api.queries.pagination import Record

Arguments = Dictionary

_WHOLE = {
    FieldDescriptor.TYPE_INT32: (32, True),
    FieldDescriptor.TYPE_UINT32: (32, False),
    FieldDescriptor.TYPE_INT64: (64, True),
    FieldDescriptor.TYPE_UINT64: (64, False),
}
"""Bits of a type of numbers, and whether it has a sign."""


def write_record(message: Message, record: Record) -> bytes:
    """A record as a message."""
    return encoded(message_class(message.name), _converter(message)([record])[0])


def encoded(wire: type[Wire], arguments: Arguments) -> bytes:
    """The bytes of a message with these arguments."""
    try:
        return wire(**arguments).SerializeToString()
    except ValueError:
        return wire(**_fitted(wire.DESCRIPTOR, arguments)).SerializeToString()


@cache
def _converter(message: Message) -> Converter:
    return converter(message, lambda field: field.name, {ScalarType.BYTES: bytes.fromhex})


def _fitted(descriptor: Any, arguments: Arguments) -> Arguments:  # noqa: ANN401 - of either implementation
    """The arguments with every value made to fit its field of the message described."""
    fitted: Arguments = {}
    for name, value in arguments.items():
        field = descriptor.fields_by_name[name]
        several = isinstance(value, list)
        fitted[name] = [_fitting(field, v) for v in value] if several else _fitting(field, value)
    return fitted


def _fitting(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401 - of any field's type
    if isinstance(value, dict):
        return _fitted(field.message_type, value)
    if field.type == FieldDescriptor.TYPE_ENUM and value is not None:
        return _enum_number(field, value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if field.type in _WHOLE and value is not None:
        return _wrapped(int(value), *_WHOLE[field.type])
    return value


def _enum_number(field: FieldDescriptor, value: str | int) -> int:
    """The number of an enum's value; 0 for a name that the enum does not know."""
    if isinstance(value, int):
        return _wrapped(value, 32, signed=True)
    member = field.enum_type.values_by_name.get(value)
    return 0 if member is None else member.number


def _wrapped(value: int, bits: int, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value
