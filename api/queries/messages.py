"""Records as messages (spec section 2): as dictionaries for both shells, and as JSON.

A record is a tuple of a message's values in the order of declaration. Its values are: text; whole
numbers, times as Unix nanoseconds; enum values by name, or the number where it has none; bytes as
lower-case hex; a message as a record or None; a list of any of these. None for what is optional and
not set.

JSON is exactly as the network's gateway writes it (decision 12): lowerCamelCase in the order of
declaration; 64-bit integers as text; enum values by name; defaults written out; an unset message is
null, an unset optional value absent; no spaces.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import orjson

from api.core.api_errors import ApiError
from api.core.descriptors import Field, Message, is_optional, json_name
from api.queries.pagination import Record

Dictionary = dict[str, Any]
Converter = Callable[[Record], Dictionary]
Names = Callable[[Field], str]
Kinds = Mapping[int, Callable[[Any], Any]]
"""By the number of a field's type."""
# What HTML and JavaScript would misread; the gateway escapes it too. All of it stands in strings.
_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "<>&"}
_WIDE_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\u2028\u2029"}
_ERROR_DETAIL = "type.googleapis.com/vega.ErrorDetail"


def converter(message: Message, name: Names, kinds: Kinds) -> Converter:
    """The function that converts a record of a message: compiled once, so that a row costs little.

    What is optional and None is left out; a message that is None stays None.
    """
    functions: dict[str, Any] = {}
    values = [f"v{at}" for at in range(len(message.fields))]
    entries = []
    for value, field in zip(values, message.fields, strict=True):
        if field.message_type:
            functions[f"f{value}"] = converter(field.message_type, name, kinds)
        elif field.type in kinds:
            functions[f"f{value}"] = kinds[field.type]
        entries.append(f"{name(field)!r}: {_expression(field, value, functions)}")
    optional = [
        f"    if {value} is None: del entry[{name(field)!r}]\n"
        for value, field in zip(values, message.fields, strict=True)
        if is_optional(field)
    ]
    exec(
        f"def convert(record):\n    [{', '.join(values)}] = record\n"
        f"    entry = {{{', '.join(entries)}}}\n{''.join(optional)}    return entry",
        functions,
    )
    convert: Converter = functions["convert"]
    return convert


def _expression(field: Field, value: str, functions: Mapping[str, Any]) -> str:
    """How a value of a field is converted, as Python."""
    function = f"f{value}"
    if function not in functions:
        return value
    if field.is_repeated:
        return f"[{function}(item) for item in {value}]"
    if is_optional(field) or field.message_type:
        return f"None if {value} is None else {function}({value})"
    return f"{function}({value})"


def record_json(message: Message, record: Record) -> bytes:
    """A record as a JSON object."""
    return _json(_converter(message)(record))


def error_json(error: ApiError) -> bytes:
    """An error's body (spec 7.1); in a stream it stands under `error`."""
    details = [{"@type": _ERROR_DETAIL, **asdict(error.detail)}] if error.detail else []
    return _json({"code": int(error.code), "message": error.message, "details": details})


def _json(value: object) -> bytes:
    """A value as JSON, without spaces; what is no text of Unicode becomes a question mark."""
    try:
        body = orjson.dumps(value)
    except TypeError:  # for a lone surrogate, or a number that 64 bits do not hold
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        body = text.encode("utf-8", "replace")
    for char, escape in _ESCAPES.items():
        body = body.replace(char, escape)
    if not body.isascii():
        for char, escape in _WIDE_ESCAPES.items():
            body = body.replace(char, escape)
    return body


def _base64(value: str) -> str:
    return b64encode(bytes.fromhex(value)).decode()


_KINDS: Kinds = {
    Field.TYPE_INT64: str,
    Field.TYPE_UINT64: str,
    Field.TYPE_BOOL: bool,
    Field.TYPE_BYTES: _base64,
}


@cache
def _converter(message: Message) -> Converter:
    return converter(message, json_name, _KINDS)
