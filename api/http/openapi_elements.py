"""The building blocks of the API's description: parameters, answers, operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from api.http.openapi_schemas import Schema, an_object, error_reference
from api.queries.pagination import MAX_LIMIT

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
    name: {"description": meaning, "schema": {"type": "string"}}
    for name, meaning in (
        ("X-Block-Height", "The newest loaded block."),
        ("X-Block-Timestamp", "Its time in Unix nanoseconds."),
    )
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation."""

    name: str
    schema: Schema
    meaning: str
    required: bool = False
    place: str = "query"

    def described(self) -> Schema:
        """Its description."""
        return {
            "name": self.name,
            "in": self.place,
            "required": self.required,
            "description": self.meaning,
            "schema": self.schema,
        }


TEXT: Schema = {"type": "string"}
TRUTH: Schema = {"type": "boolean"}
HEX: Schema = {"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}
HEX64: Schema = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
INT64: Schema = {"type": "integer", "format": "int64"}
_COUNT = {"type": "integer", "format": "int32", "minimum": 1, "maximum": MAX_LIMIT}

PAGINATION = (
    Parameter("pagination.first", _COUNT, "Records after the cursor, or from the start."),
    Parameter("pagination.after", TEXT, "Cursor of the last record of the page before."),
    Parameter("pagination.last", _COUNT, "Records before the cursor, or from the end."),
    Parameter("pagination.before", TEXT, "Cursor of the first record of the page after."),
    Parameter("pagination.newestFirst", {**TRUTH, "default": True}, "Newest first."),
)


def get(
    name: str,
    title: str,
    parameters: Iterable[Parameter],
    answers: Schema,
    *,
    enveloped: bool = False,
) -> Schema:
    """An operation; `enveloped` where errors stand under `error`, as streams have them."""
    schema = error_reference()
    if enveloped:
        schema = {"oneOf": [schema, an_object({"error": schema})]}
    failures = {status: json_answer(meaning, schema) for status, meaning in _ERRORS.items()}
    return {
        "get": {
            "operationId": name,
            "summary": title,
            "parameters": [parameter.described() for parameter in parameters],
            "responses": {**failures, **answers},
        }
    }


def success(schema: Schema) -> Schema:
    """The answer of a call."""
    return {"200": {**json_answer("OK", schema), "headers": _BLOCK_HEADERS}}


def failure(meaning: str) -> Schema:
    """An answer that is an error."""
    return json_answer(meaning, error_reference())


def json_answer(meaning: str, schema: Schema) -> Schema:
    """An answer in JSON."""
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


def text_answer(kind: str) -> Schema:
    """A successful answer that is text."""
    return {"200": {"description": "OK", "content": {kind: {"schema": TEXT}}}}
