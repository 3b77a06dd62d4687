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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice, repeat
from typing import Any

import orjson

from api.core.api_errors import ApiError
from api.core.descriptors import Field, Message, ScalarType
from api.queries.pagination import Record

Dictionary = dict[str, Any]
Converter = Callable[[Sequence[Record]], list[Dictionary]]
Names = Callable[[Field], str]
Kinds = Mapping[ScalarType, Callable[[Any], Any]]
_Change = Callable[[Sequence[Any]], Iterable[Any]]
# What HTML and JavaScript would misread; the gateway escapes it too. All of it stands in strings.
_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "<>&"}
_WIDE_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\u2028\u2029"}
_ERROR_DETAIL = "type.googleapis.com/vega.ErrorDetail"


def converter(message: Message, name: Names, kinds: Kinds) -> Converter:
    """The function that converts records of a message: made once, so that a row costs little.

    What is optional and None is left out; a message that is None stays None.
    """
    names = [name(field) for field in message.fields]
    optional = [name(field) for field in message.fields if field.optional]
    changes = [*enumerate(_change(field, name, kinds) for field in message.fields)]
    conversions = [(place, change) for place, change in changes if change is not None]

    def convert(records: Sequence[Record]) -> list[Dictionary]:
        if not (records and names):
            return [{} for _ in records]
        columns: list[Any] = [*zip(*records, strict=True)]
        for place, change in conversions:
            columns[place] = change(columns[place])
        entries = _dictionaries(names, columns)
        for key in optional:
            for entry in entries:
                if entry[key] is None:
                    del entry[key]
        return entries

    return convert


def _dictionaries(names: Sequence[str], columns: Sequence[Any]) -> list[Dictionary]:
    # An answer has thousands of small ones, edges for instance: literals take half the time.
    if len(names) == 1:
        return [{names[0]: value} for value in columns[0]]
    if len(names) == 2:
        first, second = names
        return [{first: left, second: right} for left, right in zip(*columns, strict=True)]
    return [*map(dict, map(zip, repeat(names), zip(*columns, strict=True)))]


def _change(field: Field, name: Names, kinds: Kinds) -> _Change | None:
    """How a column of values is converted; None: it stays as it is."""
    kind = field.type
    if isinstance(kind, Message):
        convert: _Change = converter(kind, name, kinds)
    elif kind in kinds:
        convert = partial(map, kinds[kind])
        if not (field.repeated or field.optional):
            return convert
    else:
        return None
    return partial(_change_lists if field.repeated else _change_set, convert)


def _change_set(convert: _Change, values: Sequence[Any]) -> Iterable[Any]:
    """Convert the values that are there, together."""
    if None not in values:
        return convert(values)
    converted = iter(convert([value for value in values if value is not None]))
    return [None if value is None else next(converted) for value in values]


def _change_lists(convert: _Change, lists: Sequence[Any]) -> Iterable[Any]:
    """Convert the items of all lists together."""
    items = iter(convert([*chain.from_iterable(lists)]))
    return [[*islice(items, len(each))] for each in lists]


def record_json(message: Message, record: Record) -> bytes:
    """A record as a JSON object."""
    return _json(_converter(message)([record])[0])


def error_json(error: ApiError) -> bytes:
    """An error's body (spec 7.1); in a stream it stands under `error`."""
    details: list[dict[str, Any]] = []
    if error.detail is not None:
        detail = error.detail
        details.append(
            {
                "@type": _ERROR_DETAIL,
                "code": int(detail.code),
                "message": detail.message,
                "inner": detail.inner,
            }
        )
    body = {"code": int(error.code), "message": error.message, "details": details}
    return _json(body)


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


_KINDS: Kinds = {ScalarType.WHOLE64: str, ScalarType.TRUTH: bool, ScalarType.BYTES: _base64}


@cache
def _converter(message: Message) -> Converter:
    return converter(message, lambda field: field.json_name, _KINDS)
