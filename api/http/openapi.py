"""The OpenAPI 3.1 description of what the server answers; a test holds the server to it.

It follows from the operations' table and from the messages that they answer with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from api.core.descriptors import Field, Message, ScalarType
from api.http.parameters import camel
from api.operations import CALLS, EXPORT, STREAM
from api.queries.operation import Group, Kind, Operation, Parameter
from api.queries.pagination import MAX_LIMIT
from transforms.tables.column_facts import HEX_OF
from transforms.tables.registry import HISTORY_TABLES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TRUTH: Schema = {"type": "boolean"}
_WHOLE: Schema = {"type": "integer"}
_PARAMETERS: Mapping[Kind, Schema] = {
    Kind.TEXT: _TEXT,
    Kind.HEX: {"type": "string", "pattern": f"^(([0-9a-fA-F]{{2}})*|{'|'.join(HEX_OF)})$"},
    Kind.HEX64: {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
    Kind.PARTY: {"type": "string", "pattern": "^([0-9a-fA-F]{64}|network)?$"},
    Kind.COUNT: {"type": "integer", "format": "int32", "minimum": 1, "maximum": MAX_LIMIT},
    Kind.INT64: {"type": "integer", "format": "int64"},
    Kind.TRUTH: _TRUTH,
    Kind.TABLE: {
        "type": "string",
        "enum": ["TABLE_" + table.upper() for table in HISTORY_TABLES],
    },
}
_VALUES: Mapping[ScalarType, Schema] = {
    ScalarType.TEXT: _TEXT,
    ScalarType.WHOLE64: {"type": "string", "pattern": "^-?[0-9]+$"},
    ScalarType.WHOLE32: _WHOLE,
    ScalarType.TRUTH: _TRUTH,
    ScalarType.ENUM: {
        "type": ["string", "integer"],
        "description": "The value's name; its number where the network has not named it.",
    },
    ScalarType.BYTES: {"type": "string", "contentEncoding": "base64"},
}
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
                **_service_paths(),
            },
            "components": {
                "schemas": _components(),
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{}, {"token": []}],
        },
        separators=(",", ":"),
    ).encode()


def _operation(operation: Operation[Any], answers: Schema, error: Schema | None = None) -> Schema:
    method = operation.method.rpartition("/")[2]
    name = operation.id or method[0].lower() + method[1:]
    return _get(name, operation.title, answers, [*_parameters(operation)], error)


def _get(
    name: str,
    title: str,
    answers: Schema,
    parameters: list[Schema] | None = None,
    error: Schema | None = None,
) -> Schema:
    failures = {
        status: _json_answer(meaning, error or _reference("Error"))
        for status, meaning in _ERRORS.items()
    }
    return {
        "get": {
            "operationId": name,
            "summary": title,
            "parameters": parameters or [],
            "responses": {**failures, **answers},
        }
    }


def _parameters(operation: Operation[Any]) -> Iterator[Schema]:
    for parameter in operation.parameters:
        if isinstance(parameter, Group):
            for each in parameter.parameters:
                yield _parameter(each, f"{camel(parameter.name)}.{camel(each.name)}")
        else:
            yield _parameter(parameter, camel(parameter.name))


def _parameter(parameter: Parameter, name: str) -> Schema:
    default = {} if parameter.default is None else {"default": parameter.default}
    return {
        "name": name,
        "in": "path" if parameter.in_path else "query",
        "required": parameter.required or parameter.in_path,
        "description": parameter.meaning,
        "schema": {**_PARAMETERS[parameter.kind], **default},
    }


def _export_answers() -> Schema:
    zipped = {
        "application/zip": {"schema": {"type": "string", "contentMediaType": "application/zip"}}
    }
    return {
        "200": {
            "description": "The ZIP; Range, If-Range and If-None-Match work. Repr-Digest has its "
            "SHA-256 where that is known, and always for HEAD with Want-Repr-Digest: sha-256=1.",
            "content": zipped,
        },
        "206": {"description": "The range asked for.", "content": zipped},
        "304": {"description": "The client has it already."},
        "412": _json_answer("The ZIP is another one by now.", _reference("Error")),
        "416": _json_answer("No such range.", _reference("Error")),
    }


def _stream_answers() -> Schema:
    line = _object({"result": _answer_schema(STREAM.answered)})
    return {"200": _json_answer("A line", line)}


def _enveloped() -> Schema:
    """An error, which stands under `error` before a stream or a download begins."""
    error = _reference("Error")
    return {"oneOf": [error, _object({"error": error})]}


def _success(call: Operation[Any]) -> Schema:
    return {"200": {**_json_answer("OK", _answer_schema(call.answered)), "headers": _BLOCK_HEADERS}}


def _service_paths() -> Schema:
    text = {"200": {"description": "OK", "content": {"text/plain": {"schema": _TEXT}}}}
    state = _state()
    ready = {"200": _json_answer("Ready.", state), "503": _json_answer("Not ready.", state)}
    return {
        "/health": _get("health", "Whether the process lives", text),
        "/ready": _get("ready", "Whether data is served, and how old", ready),
        "/metrics": _get("metrics", "Counters for Prometheus", text),
    }


def _state() -> Schema:
    """What `/ready` answers: `null` where it is not known."""
    known = {"ready": _TRUTH, "reason": _TEXT, "chainId": _TEXT, "segments": _WHOLE}
    numbers = (
        *("snapshot", "blockHeight", "blocksBehind", "segmentsWaiting", "bytesWaiting"),
        *("gaps", "blocksMissing", "filesQuarantined"),
    )
    others = {
        **dict.fromkeys(numbers, _WHOLE),
        **dict.fromkeys(("changedAt", "blockTimestamp"), _TEXT),
        "missing": _list(_TEXT),
        "quarantined": _list(_object({"file": _TEXT, "reason": _TEXT})),
    }
    return _object(known | {name: _nullable(schema) for name, schema in others.items()})


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _json_answer(meaning: str, schema: Schema) -> Schema:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


# The messages


def _answer_schema(message: Message) -> Schema:
    """What is answered: a message, or what it has under its one name, a page for instance."""
    if not _is_wrapper(message):
        return _reference(_name(message))
    (field,) = message.fields
    assert isinstance(field.type, Message)
    node = _node(field.type)
    if node is None:
        schema = _reference(_name(field.type))
        return _object({field.json_name: _list(schema) if field.repeated else schema})
    edge = _object({"node": _reference(_name(node)), "cursor": _TEXT})
    page = _object({"edges": _list(edge), "pageInfo": _reference("PageInfo")})
    return _object({field.json_name: page})


def _is_wrapper(message: Message) -> bool:
    return len(message.fields) == 1 and isinstance(message.fields[0].type, Message)


def _node(message: Message) -> Message | None:
    """What the edges of a page are about; None for a message that is no page."""
    fields = {field.name: field.type for field in message.fields}
    edge = fields.get("edges")
    node = edge.fields[0].type if isinstance(edge, Message) else None
    return node if isinstance(node, Message) else None


def _components() -> dict[str, Schema]:
    """The schema of every message that is answered, by name, and those that all answers share."""
    operations = [STREAM, *(call for call in CALLS if call.path)]
    messages = {m.name: m for operation in operations for m in _described(operation.answered)}
    text, whole = _TEXT, _WHOLE
    page_info = {"hasNextPage": _TRUTH, "hasPreviousPage": _TRUTH}
    detail = {"@type": text, "code": whole, "message": text, "inner": text}
    error = {"code": whole, "message": text, "details": _list(_reference("ErrorDetail"))}
    return {
        **{_name(message): _message_schema(message) for message in messages.values()},
        "PageInfo": _object({**page_info, "startCursor": text, "endCursor": text}),
        "ErrorDetail": _object(detail),
        "Error": _object(error),
    }


def _described(answered: Message) -> Iterator[Message]:
    """The messages of an answer that have a name in the description."""
    if _is_wrapper(answered):
        (field,) = answered.fields
        assert isinstance(field.type, Message)
        answered = _node(field.type) or field.type
    yield from _with_nested(answered)


def _with_nested(message: Message) -> Iterator[Message]:
    yield message
    for field in message.fields:
        if isinstance(field.type, Message):
            yield from _with_nested(field.type)


def _message_schema(message: Message) -> Schema:
    optional = [field.json_name for field in message.fields if field.optional]
    return _object({field.json_name: _field_schema(field) for field in message.fields}, *optional)


def _field_schema(field: Field) -> Schema:
    if isinstance(field.type, ScalarType):
        schema = _VALUES[field.type]
    else:
        schema = _reference(_name(field.type))
        if not field.repeated and not field.optional:
            schema = _nullable(schema)
    return _list(schema) if field.repeated else schema


def _object(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """An object with these fields; all but the `optional` ones are always there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": {**properties}, "required": required}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _name(message: Message) -> str:
    return message.name.rpartition(".")[2]


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
