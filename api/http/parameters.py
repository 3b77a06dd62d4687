"""Query parameters, read by the rules of the network's gateway (spec 2.1; decision 12).

It differs from Python in URLs: a `;` is an error, and so is a `%` that no two hex digits follow.
A name is written with underscores or in camelCase, level by level; unknown names are passed over.
What a value means is not checked here, only whether it is of its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from api.core.api_errors import MalformedParameterError
from api.http.answers import given_fields
from api.queries.operation import Operation
from api.queries.parameters import Group, Kind, Parameter, Parameters, request_of
from api.queries.requests import TABLES

_Request = TypeVar("_Request")
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
TABLE_NUMBERS = {f"TABLE_{name.upper()}": number for number, name in enumerate(TABLES)}


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
    operation: Operation[_Request], query: QueryPairs, path: Mapping[str, str] | None = None
) -> _Request:
    """The request of an operation, with the parameters in its path by their names in camelCase.

    Raises `MalformedParameterError`.
    """
    values = read_parameters(query, operation.parameters)
    for parameter in operation.parameters:
        if isinstance(parameter, Parameter) and parameter.in_path:
            values[parameter.name] = (path or {}).get(camel(parameter.name), "")
    return request_of(operation.request, values)


def read_parameters(query: QueryPairs, parameters: Parameters) -> dict[str, Any]:
    """Read names and values, already percent-decoded and in any order, of the parameters given.

    Returns what was given, by name with underscores, groups as dictionaries. Raises
    `MalformedParameterError` naming the first parameter that cannot be read.
    """
    texts: dict[str, list[str]] = {}
    for name, value in query:
        texts.setdefault(name, []).append(value)
    values: dict[str, Any] = {}
    for name, given in texts.items():
        bracketed = _BRACKETS.fullmatch(name)
        if bracketed is not None:
            _read_one(values, parameters, bracketed[1].split("."), [bracketed[2], *given])
        else:
            _read_one(values, parameters, name.split("."), given)
    return values


@cache
def camel(name: str) -> str:
    """A name in camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _read_one(
    values: dict[str, Any], parameters: Parameters, path: Iterable[str], texts: list[str]
) -> None:
    """Read one parameter: descend its path, then take its only value."""
    *above, leaf = path
    for part in above:
        group = _find(parameters, part)
        if group is None:
            return
        if not isinstance(group, Group):
            raise MalformedParameterError(f'invalid path: "{part}" is not a message')
        values, parameters = values.setdefault(group.name, {}), group.parameters
    parameter = _find(parameters, leaf)
    if parameter is None:
        return
    name = parameter.name
    if len(texts) > 1:
        listed = ", ".join(texts)
        raise MalformedParameterError(f'too many values for field "{name}": {listed}')
    if isinstance(parameter, Group):
        kind = f'unsupported message type: "{parameter.message}"'
        raise MalformedParameterError(f'parsing field "{name}": {kind}')
    if name in values:
        # Once with underscores and once in camelCase: nothing says which is meant.
        raise MalformedParameterError(f'field already set for oneof "_{name}"')
    try:
        values[name] = _read_value(parameter.kind, texts[0])
    except ValueError as error:
        raise MalformedParameterError(f'parsing field "{name}": {error}') from None


def _find(parameters: Parameters, name: str) -> Parameter | Group | None:
    for parameter in parameters:
        if name in (parameter.name, camel(parameter.name)):
            is_in_path = isinstance(parameter, Parameter) and parameter.in_path
            return None if is_in_path else parameter
    return None


def _read_value(kind: Kind, text: str) -> str | int | bool:
    if kind is Kind.TABLE:
        return _read_table(text)
    if kind is Kind.TRUTH:
        if text not in _TRUTHS:
            raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
        return _TRUTHS[text]
    if kind in (Kind.COUNT, Kind.INT64):
        return _read_integer(text, 32 if kind is Kind.COUNT else 64)
    return text


def _read_table(text: str) -> int:
    if text in TABLE_NUMBERS:
        return TABLE_NUMBERS[text]
    number = int(text) if _INTEGER.fullmatch(text) and len(text) <= _LONG else -1
    if not 0 <= number < len(TABLES):
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
