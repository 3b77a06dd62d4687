"""The `.proto` files: compiled as committed, and in step with what REST writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import FieldDescriptor

from api.queries import messages
from api.queries.messages import Kind, Message
from api.rpc.schema import POOL, message_class
from tests.api.rpc.protos import COMPILED, compiled
from transforms.tables.enum_names import enum_names

_TYPES = {
    Kind.TEXT: {FieldDescriptor.TYPE_STRING},
    Kind.WHOLE64: {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64},
    Kind.WHOLE32: {FieldDescriptor.TYPE_UINT32},
    Kind.TRUTH: {FieldDescriptor.TYPE_BOOL},
    Kind.ENUM: {FieldDescriptor.TYPE_ENUM},
    Kind.BYTES: {FieldDescriptor.TYPE_BYTES},
}


def _known() -> dict[str, Message]:
    """Every message that records are made of, by its full name."""
    found: dict[str, Message] = {}

    def add(message: Message) -> None:
        found[message.name] = message
        for field in message.fields:
            if isinstance(field.type, Message):
                add(field.type)

    for value in vars(messages).values():
        if isinstance(value, Message):
            add(value)
    return found


_MESSAGES = _known()


def test_the_compiled_file_is_what_the_proto_files_say() -> None:
    assert COMPILED.read_bytes() == compiled(), "run `make protos`"


@pytest.mark.parametrize("name", _MESSAGES)
def test_a_message_has_the_fields_that_rest_writes(name: str) -> None:
    declared = message_class(name).DESCRIPTOR.fields_by_name
    wanted = {field.name: field for field in _MESSAGES[name].fields}
    assert {*declared} == {*wanted}
    for field_name, field in wanted.items():
        found = declared[field_name]
        assert found.json_name == field.json_name
        assert found.is_repeated == field.repeated
        if isinstance(field.type, Message):
            assert found.message_type.full_name == field.type.name
            # Of a message that is absent in JSON, and not null, there is a choice.
            assert (found.containing_oneof is not None) == field.optional
        else:
            assert found.type in _TYPES[field.type]
            assert found.has_presence == field.optional


def _enums() -> Iterator[tuple[str, str]]:
    order = message_class("vega.Order").DESCRIPTOR.fields_by_name
    for name in ("side", "time_in_force", "type", "status", "reason"):
        yield name, order[name].enum_type.full_name
    yield "pegged_reference", "vega.PeggedReference"


@pytest.mark.parametrize(("column", "enum"), [*_enums()])
def test_an_enum_has_the_names_that_the_tables_have(column: str, enum: str) -> None:
    declared = POOL.FindEnumTypeByName(enum).values_by_number
    assert {number: value.name for number, value in declared.items()} == enum_names(
        "orders", column
    )
