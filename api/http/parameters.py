"""Query parameters, read by the rules of the network's gateway (spec 2.1; decision 12).

It differs from Python in URLs: a `;` is an error, and so is a `%` that no two hex digits follow.
A name is written with underscores or in camelCase, level by level; unknown names are passed over.
What a value means is not checked here, only whether it is of its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from api.core.api_errors import MalformedParameterError
from api.core.descriptors import Field, Message, Request, class_of, json_name
from api.http.answers import given_fields
from api.queries.operation import Operation

QueryPairs = Iterable[tuple[str, str]]
"""Names and values of query parameters, percent-decoded, in the order given."""

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_BRACKETS = re.compile(r"(.*)\[(.*)\]", re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
# More digits than any type holds; thousands of them Python would refuse to read.
_LONG = 40
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def time_limit(scope: Scope) -> float | None:
    """The client's own time limit, `Grpc-Timeout`, in seconds; None without one.

    Raises `MalformedParameterError`.
    """
    timeout = given_fields(scope).get("grpc-timeout")
    if timeout is None:
        return None
    match = _TIMEOUT.fullmatch(timeout)
    if match is None:
        raise MalformedParameterError(f"invalid grpc-timeout: {timeout}")
    return int(match[1]) * _UNITS[match[2]]


def parse_query(query: bytes) -> list[tuple[str, str]]:
    """The names and values in their order, decoded. Raises `MalformedParameterError`."""
    pairs = []
    for piece in query.split(b"&"):
        if b";" in piece:
            raise MalformedParameterError("invalid semicolon separator in query")
        if piece:
            name, _, value = piece.partition(b"=")
            pairs.append((_decoded(name), _decoded(value)))
    return pairs


def _decoded(text: bytes) -> str:
    if b"%" in text or b"+" in text:
        bad = _BAD_ESCAPE.search(text)
        if bad is not None:
            shown = bad[0].decode("utf-8", "replace")
            raise MalformedParameterError(f'invalid URL escape "{shown}"')
        text = unquote_to_bytes(text.replace(b"+", b" "))
    return text.decode("utf-8", "replace")


def read_request(
    operation: Operation, query: QueryPairs, path: Mapping[str, str] | None = None
) -> Request:
    """The request of an operation, with what is in its path by its name in camelCase.

    Raises `MalformedParameterError` naming the first parameter that cannot be read.
    """
    request = class_of(operation.method.input_type)()
    read_parameters(request, query, operation.in_path)
    for name, text in (path or {}).items():
        setattr(request, _fields(request.DESCRIPTOR)[name].name, text)
    return request


def read_parameters(request: Request, query: QueryPairs, in_path: str = "") -> None:
    """Set what is given by names and values, already percent-decoded and in any order.

    A parameter that is in the path has no place in the query. Raises `MalformedParameterError`.
    """
    texts: dict[str, list[str]] = {}
    for name, value in query:
        texts.setdefault(name, []).append(value)
    fields: set[tuple[str, ...]] = set()
    for name, values in texts.items():
        bracketed = _BRACKETS.fullmatch(name)
        path, more = bracketed.groups() if bracketed else (name, None)
        given = values if more is None else [more, *values]
        place = _read_one(request, path.split("."), given, in_path)
        if place in fields:
            # Once with underscores and once in camelCase: nothing says which is meant.
            raise MalformedParameterError(f'field already set for oneof "_{place[-1]}"')
        if place:
            fields.add(place)


@cache
def _fields(message: Message) -> Mapping[str, Field]:
    """The fields of a message by their names, in both spellings."""
    return {name: field for field in message.fields for name in (field.name, json_name(field))}


def _read_one(
    message: Request, path: Sequence[str], texts: Sequence[str], in_path: str
) -> tuple[str, ...]:
    """Read one parameter: descend its path, then take its only value. Returns the fields' names."""
    field = _fields(message.DESCRIPTOR).get(path[0])
    if field is None or json_name(field) == in_path:
        return ()
    name = field.name
    if len(path) > 1:
        if not field.message_type:
            raise MalformedParameterError(f'invalid path: "{path[0]}" is not a message')
        below = _read_one(getattr(message, name), path[1:], texts, "")
        return (name, *below) if below else ()
    if len(texts) > 1:
        listed = ", ".join(texts)
        raise MalformedParameterError(f'too many values for field "{name}": {listed}')
    try:
        setattr(message, name, _read_value(field, texts[0]))
    except ValueError as error:
        raise MalformedParameterError(f'parsing field "{name}": {error}') from None
    return (name,)


def _read_value(field: Field, text: str) -> str | int | bool:
    if field.message_type:
        raise ValueError(f'unsupported message type: "{field.message_type.full_name}"')
    if field.type == Field.TYPE_ENUM:
        return _read_enum(field, text)
    if field.type == Field.TYPE_BOOL:
        if text not in _TRUTHS:
            raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
        return _TRUTHS[text]
    if field.type == Field.TYPE_STRING:
        return text
    return _read_integer(text, 32 if field.type == Field.TYPE_INT32 else 64)


def _read_enum(field: Field, text: str) -> int:
    names, numbers = field.enum_type.values_by_name, field.enum_type.values_by_number
    if text in names:
        return int(names[text].number)
    number = int(text) if _INTEGER.fullmatch(text) and len(text) <= _LONG else -1
    if number not in numbers:
        raise ValueError(f'"{text}" is not a valid value')
    return number


def _read_integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    limit = 2 ** (bits - 1)
    digits = text.lstrip("+-0") or "0"
    number = limit if len(digits) > _LONG else -int(digits) if text[0] == "-" else int(digits)
    if not -limit <= number < limit:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number
