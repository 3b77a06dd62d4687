"""Query parameters as text, read by the rules of the network's gateway (spec 2.1; decision 12).

A name is written with underscores or in camelCase, level by level; unknown names are passed over.
What a value means is not checked here, only whether it is of its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from api.core.api_errors import MalformedParameterError

_BRACKETS = re.compile(r"(.*)\[(.*)\]", re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
# More digits than any type holds; thousands of them Python would refuse to read.
_LONG = 40
_TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


class Scalar(Enum):
    """The types of single values."""

    TEXT = "string"
    INT32 = "int32"
    INT64 = "int64"
    BOOLEAN = "bool"


@dataclass(frozen=True, slots=True)
class EnumParameter:
    """One of several numbered names, given by exact name or by number."""

    names: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Group:
    """Fields below one name, `pagination.first` for instance."""

    title: str
    fields: Mapping[str, Field]


Field = Scalar | EnumParameter | Group
Fields = Mapping[str, Field]
"""Fields by their name with underscores."""

PAGINATION = Group(
    "datanode.api.v2.Pagination",
    {
        "first": Scalar.INT32,
        "after": Scalar.TEXT,
        "last": Scalar.INT32,
        "before": Scalar.TEXT,
        "newest_first": Scalar.BOOLEAN,
    },
)
DATE_RANGE = Group(
    "datanode.api.v2.DateRange",
    {"start_timestamp": Scalar.INT64, "end_timestamp": Scalar.INT64},
)


def read_parameters(query: Iterable[tuple[str, str]], fields: Fields) -> dict[str, Any]:
    """Read names and values, already percent-decoded and in any order, into the fields given.

    Returns what was given, by name with underscores, groups as dictionaries. Raises
    `MalformedParameterError` naming the first parameter that cannot be read.
    """
    texts: dict[str, list[str]] = {}
    for name, value in query:
        texts.setdefault(name, []).append(value)
    parameters: dict[str, Any] = {}
    for name, values in texts.items():
        bracketed = _BRACKETS.fullmatch(name)
        if bracketed is not None:
            _read_one(parameters, fields, bracketed[1].split("."), [bracketed[2], *values])
        else:
            _read_one(parameters, fields, name.split("."), values)
    return parameters


def _read_one(
    parameters: dict[str, Any], fields: Fields, path: Iterable[str], values: list[str]
) -> None:
    """Read one parameter: descend its path, then take its only value."""
    *above, leaf = path
    for part in above:
        match = _find(fields, part)
        if match is None:
            return
        name, field = match
        if not isinstance(field, Group):
            raise MalformedParameterError(f'invalid path: "{part}" is not a message')
        parameters, fields = parameters.setdefault(name, {}), field.fields
    match = _find(fields, leaf)
    if match is None:
        return
    name, field = match
    if len(values) > 1:
        listed = ", ".join(values)
        raise MalformedParameterError(f'too many values for field "{name}": {listed}')
    if isinstance(field, Group):
        kind = f'unsupported message type: "{field.title}"'
        raise MalformedParameterError(f'parsing field "{name}": {kind}')
    if name in parameters:
        # Once with underscores and once in camelCase: nothing says which is meant.
        raise MalformedParameterError(f'field already set for oneof "_{name}"')
    try:
        parameters[name] = _read_value(field, values[0])
    except ValueError as error:
        raise MalformedParameterError(f'parsing field "{name}": {error}') from None


def _find(fields: Fields, part: str) -> tuple[str, Field] | None:
    for name, field in fields.items():
        if part in (name, _camel(name)):
            return name, field
    return None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _read_value(field: Scalar | EnumParameter, text: str) -> str | int | bool:
    if isinstance(field, EnumParameter):
        return _read_choice(field, text)
    if field is Scalar.BOOLEAN:
        if text not in _TRUTHS:
            raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
        return _TRUTHS[text]
    if field is Scalar.TEXT:
        return text
    return _read_integer(text, 32 if field is Scalar.INT32 else 64)


def _read_choice(field: EnumParameter, text: str) -> int:
    if text in field.names:
        return field.names[text]
    number = int(text) if _INTEGER.fullmatch(text) and len(text) <= _LONG else -1
    if number not in field.names.values():
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
