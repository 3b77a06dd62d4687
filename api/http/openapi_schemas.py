"""JSON Schemas of the messages, made from the very tables that write them (spec section 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from api.core.descriptors import Field, Message, ScalarType
from api.queries.messages import (
    BOOTSTRAP_PEERS,
    HISTORY_STATUS,
    INFO,
    LIQUIDITY_PROVISION,
    NODE_SIGNATURE,
    ORACLE_DATA,
    ORDER,
    SEGMENT,
    SPAM_RESPONSE,
    VEGA_TIME,
    WITHDRAWAL,
)

Schema = dict[str, Any]

_KINDS: Mapping[ScalarType, Schema] = {
    ScalarType.TEXT: {"type": "string"},
    ScalarType.WHOLE64: {"type": "string", "pattern": "^-?[0-9]+$"},
    ScalarType.WHOLE32: {"type": "integer"},
    ScalarType.TRUTH: {"type": "boolean"},
    ScalarType.ENUM: {
        "type": ["string", "integer"],
        "description": "The value's name; its number where the network has not named it.",
    },
    ScalarType.BYTES: {"type": "string", "contentEncoding": "base64"},
}
_ANSWERED = (
    BOOTSTRAP_PEERS,
    HISTORY_STATUS,
    INFO,
    LIQUIDITY_PROVISION,
    NODE_SIGNATURE,
    ORACLE_DATA,
    ORDER,
    SEGMENT,
    SPAM_RESPONSE,
    VEGA_TIME,
    WITHDRAWAL,
)


def component_schemas() -> dict[str, Schema]:
    """The schema of every message that is answered, by name, and those that all answers share."""
    messages = {message.name: message for root in _ANSWERED for message in _with_nested(root)}
    text, truth, whole = ({"type": kind} for kind in ("string", "boolean", "integer"))
    page_info = {"hasNextPage": truth, "hasPreviousPage": truth}
    detail = {"@type": text, "code": whole, "message": text, "inner": text}
    error = {"code": whole, "message": text, "details": listed(_reference("ErrorDetail"))}
    return {
        **{_name(message): _schema(message) for message in messages.values()},
        "PageInfo": an_object({**page_info, "startCursor": text, "endCursor": text}),
        "ErrorDetail": an_object(detail),
        "Error": an_object(error),
    }


def error_reference() -> Schema:
    """A reference to the schema of errors."""
    return _reference("Error")


def reference(message: Message) -> Schema:
    """A reference to a message's schema."""
    return _reference(_name(message))


def page_schema(message: Message) -> Schema:
    """A page of records (spec 2.1)."""
    edge = an_object({"node": reference(message), "cursor": {"type": "string"}})
    return an_object({"edges": listed(edge), "pageInfo": _reference("PageInfo")})


def listed(schema: Schema) -> Schema:
    """A list of something."""
    return {"type": "array", "items": schema}


def an_object(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """An object with these fields; all but the `optional` ones are always there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": {**properties}, "required": required}


def _with_nested(message: Message) -> Iterator[Message]:
    yield message
    for field in message.fields:
        if isinstance(field.type, Message):
            yield from _with_nested(field.type)


def _schema(message: Message) -> Schema:
    properties = {field.json_name: _field_schema(field) for field in message.fields}
    return an_object(properties, *(f.json_name for f in message.fields if f.optional))


def _field_schema(field: Field) -> Schema:
    if isinstance(field.type, ScalarType):
        schema = _KINDS[field.type]
    else:
        schema = reference(field.type)
        if not field.repeated and not field.optional:
            schema = {"anyOf": [schema, {"type": "null"}]}
    return listed(schema) if field.repeated else schema


def _name(message: Message) -> str:
    return message.name.rpartition(".")[2]


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
