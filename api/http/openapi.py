"""The OpenAPI 3.1 description of what the server answers; a test holds the server to it.

It follows from the operations' table and from their messages, with the comments there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from api.core.descriptors import Field, Message, comments, is_optional, json_name
from api.operations import CALLS, EXPORT, STREAM
from api.queries.operation import Operation
from api.queries.pagination import MAX_LIMIT
from transforms.tables.column_facts import HEX_OF
from transforms.tables.registry import HISTORY_TABLES

Schema = dict[str, Any]
_COMMENTS = dict(comments())

_TEXT: Schema = {"type": "string"}
_TRUTH: Schema = {"type": "boolean"}
_WHOLE: Schema = {"type": "integer"}
_HEX = {"type": "string", "pattern": f"^(([0-9a-fA-F]{{2}})*|{'|'.join(HEX_OF)})$"}
_HEX64 = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_IDS: Mapping[str, Schema] = {
    "ListOrderVersionsRequest.order_id": _HEX64,
    "GetWithdrawalRequest.id": _HEX64,
    "ListWithdrawalsRequest.party_id": {
        "type": "string",
        "pattern": "^([0-9a-fA-F]{64}|network)?$",
    },
}
"""Parameters that are other ids than bytes in hex, or the name of an id."""
_PARAMETERS: Mapping[int, Schema] = {
    Field.TYPE_STRING: _TEXT,
    Field.TYPE_INT32: {"type": "integer", "format": "int32", "minimum": 1, "maximum": MAX_LIMIT},
    Field.TYPE_INT64: {"type": "integer", "format": "int64"},
    Field.TYPE_ENUM: {
        "type": "string",
        "enum": ["TABLE_" + table.upper() for table in HISTORY_TABLES],
    },
}
_REQUIRED = ("ListNodeSignaturesRequest.id", "ExportNetworkHistoryRequest.table")
_TRUE_BY_DEFAULT = ("newest_first", "snapshot")
_WHOLE64: Schema = {"type": "string", "pattern": "^-?[0-9]+$"}
_VALUES: Mapping[int, Schema] = {
    Field.TYPE_STRING: _TEXT,
    Field.TYPE_INT64: _WHOLE64,
    Field.TYPE_UINT64: _WHOLE64,
    Field.TYPE_UINT32: _WHOLE,
    Field.TYPE_BOOL: _TRUTH,
    Field.TYPE_ENUM: {
        "type": ["string", "integer"],
        "description": "The value's name; its number where the network has not named it.",
    },
    Field.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
}
# Its messages are answers and pages, all of whose parts are there.
_ANSWERS = "datanode.api.v2."
_ERRORS = {
    "400": "The request cannot be right; `details` says why.",
    "401": "A bearer token is needed.",
    "403": "Shut out for a while: the client went on asking too often.",
    "404": "There is no such thing.",
    "429": "Too many requests from this client, or streams.",
    "500": "Something failed; the answer's X-Request-Id is in the log.",
    "503": "Too busy, or nothing is loaded: try again after Retry-After seconds.",
    "504": "The answer took longer than it may.",
}
_BLOCK_HEADERS = {
    "X-Block-Height": {"description": "The newest loaded block.", "schema": _TEXT},
    "X-Block-Timestamp": {"description": "Its time in Unix nanoseconds.", "schema": _TEXT},
}


def document() -> bytes:
    """The description as JSON."""
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Strata",
                "version": version("strata"),
                "description": "Network history: exports, the published archive, and queries over "
                "the same data. 64-bit numbers are text in JSON, times are Unix nanoseconds.",
            },
            "servers": [{"url": "."}],
            "paths": {
                EXPORT.path: _operation(EXPORT, _export_answers(), _enveloped()),
                STREAM.path: _operation(STREAM, _stream_answers(), _enveloped()),
                **{call.path: _operation(call, _success(call)) for call in CALLS if call.path},
            },
            "components": {
                "schemas": _components(),
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{}, {"token": []}],
        },
        separators=(",", ":"),
    ).encode()


def _operation(operation: Operation, answers: Schema, error: Schema | None = None) -> Schema:
    method = operation.method
    failures = {
        status: _json_answer(meaning, error or _reference("Error"))
        for status, meaning in _ERRORS.items()
    }
    return {
        "get": {
            "operationId": operation.id or method.name[0].lower() + method.name[1:],
            "summary": _COMMENTS[method.full_name].rstrip("."),
            "parameters": [*_parameters(operation)],
            "responses": {**failures, **answers},
        }
    }


def _parameters(operation: Operation, below: Field | None = None) -> Iterator[Schema]:
    """The parameters of an operation, those of a group under its name."""
    message = operation.method.input_type if below is None else below.message_type
    for field in message.fields:
        if field.message_type:
            yield from _parameters(operation, field)
        else:
            begin = f"{json_name(below)}." if below else ""
            yield _parameter(field, f"{begin}{json_name(field)}", operation.in_path)


def _parameter(field: Field, name: str, in_path: str) -> Schema:
    at = f"{field.containing_type.name}.{field.name}"
    if field.type == Field.TYPE_BOOL:
        schema = {**_TRUTH, "default": field.name in _TRUE_BY_DEFAULT}
    elif field.name == "id" or field.name.endswith("_id"):
        schema = _IDS.get(at, _HEX)
    else:
        schema = _PARAMETERS[field.type]
    return {
        "name": name,
        "in": "path" if name == in_path else "query",
        "required": name == in_path or at in _REQUIRED,
        "description": _COMMENTS[field.full_name],
        "schema": schema,
    }


def _export_answers() -> Schema:
    zipped = {
        "application/zip": {"schema": {"type": "string", "contentMediaType": "application/zip"}}
    }
    return {
        "200": {
            "description": "The ZIP; Range, If-Range and If-None-Match work.",
            "content": zipped,
        },
        "206": {"description": "The range asked for.", "content": zipped},
        "304": {"description": "The client has it already."},
        "412": _json_answer("The ZIP is another one by now.", _reference("Error")),
        "416": _json_answer("No such range.", _reference("Error")),
    }


def _stream_answers() -> Schema:
    line = _object({"result": _reference(STREAM.method.output_type.name)})
    return {"200": _json_answer("A line", line)}


def _enveloped() -> Schema:
    """An error, which stands under `error` before a stream or a download begins."""
    error = _reference("Error")
    return {"oneOf": [error, _object({"error": error})]}


def _success(call: Operation) -> Schema:
    answer = _json_answer("OK", _reference(call.method.output_type.name))
    return {"200": {**answer, "headers": _BLOCK_HEADERS}}


def _json_answer(meaning: str, schema: Schema) -> Schema:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


# The messages


def _components() -> dict[str, Schema]:
    """The schema of every message that is answered, by name, and those that all answers share."""
    messages: dict[str, Message] = {}
    for operation in (STREAM, *(call for call in CALLS if call.path)):
        _collect(operation.method.output_type, messages)
    text, whole = _TEXT, _WHOLE
    detail = {"@type": text, "code": whole, "message": text, "inner": text}
    error = {"code": whole, "message": text, "details": _list(_reference("ErrorDetail"))}
    return {
        **{name: _message_schema(message) for name, message in messages.items()},
        "ErrorDetail": _object(detail),
        "Error": _object(error),
    }


def _collect(message: Message, messages: dict[str, Message]) -> None:
    """Add a message by its name, and all that it consists of."""
    messages[message.name] = message
    for field in message.fields:
        if field.message_type:
            _collect(field.message_type, messages)


def _message_schema(message: Message) -> Schema:
    optional = map(json_name, filter(is_optional, message.fields))
    return _object({json_name(field): _field_schema(field) for field in message.fields}, *optional)


def _field_schema(field: Field) -> Schema:
    if not field.message_type:
        schema = _VALUES[field.type]
    else:
        schema = _reference(field.message_type.name)
        is_there = field.is_repeated or field.full_name.startswith(_ANSWERS)
        if not (is_there or is_optional(field)):
            schema = {"anyOf": [schema, {"type": "null"}]}
    return _list(schema) if field.is_repeated else schema


def _object(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """An object with these fields; all but the `optional` ones are always there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": {**properties}, "required": required}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
