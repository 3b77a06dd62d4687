"""Exact proto-JSON: records as the network's gateway writes them (decision 12).

lowerCamelCase in the order of declaration; 64-bit integers as text; enum values by name; defaults
written out; an unset message is null, an unset optional value absent; no spaces.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import cache
from json import dumps
from json.encoder import encode_basestring as _quote
from typing import Any

from api.core.errors import ApiError
from api.core.schema import Field, Kind, Message
from api.queries.pagination import Page, Record

Writer = Callable[[Any], str]

# What HTML and JavaScript would misread; the gateway escapes it too.
_RISKY = re.compile("[<>&\u2028\u2029]")
_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_ERROR_DETAIL = "type.googleapis.com/vega.ErrorDetail"


def text_json(text: str) -> str:
    """A text as a JSON string."""
    if text.isalnum():
        return f'"{text}"'
    quoted = _quote(text)
    return quoted.translate(_ESCAPES) if _RISKY.search(quoted) else quoted


def record_json(message: Message, record: Record) -> str:
    """A record as a JSON object."""
    return _object_writer(message)(record)


def records_json(message: Message, records: Iterable[Record]) -> str:
    """Records as a JSON array."""
    return f"[{','.join(map(_object_writer(message), records))}]"


def page_json(key: str, message: Message, page: Page) -> bytes:
    """A page under its response key, as a whole answer (spec 2.1)."""
    nodes = map(_object_writer(message), page.records)
    edges = ",".join(
        f'{{"node":{node},"cursor":"{cursor}"}}'
        for node, cursor in zip(nodes, page.cursors, strict=True)
    )
    return (
        f'{{"{key}":{{"edges":[{edges}],"pageInfo":{{'
        f'"hasNextPage":{_truth(page.has_next)},"hasPreviousPage":{_truth(page.has_previous)},'
        f'"startCursor":"{page.start_cursor}","endCursor":"{page.end_cursor}"}}}}}}'
    ).encode("utf-8", "replace")


def error_json(error: ApiError) -> str:
    """An error's body (spec 7.1); in a stream it stands under `error`."""
    details = ""
    if error.detail is not None:
        details = (
            f'{{"@type":"{_ERROR_DETAIL}","code":{error.detail.code},'
            f'"message":{text_json(error.detail.message)},"inner":{text_json(error.detail.inner)}}}'
        )
    message = text_json(error.message)
    return f'{{"code":{int(error.code)},"message":{message},"details":[{details}]}}'


def _truth(value: object) -> str:
    return "true" if value else "false"


def _whole64(value: int) -> str:
    return f'"{value}"'


def _enum(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) and value.isidentifier() else dumps(value)


def _bytes(value: str) -> str:
    return f'"{b64encode(bytes.fromhex(value)).decode()}"'


_WRITERS: dict[Kind, Writer] = {
    Kind.TEXT: text_json,
    Kind.WHOLE64: _whole64,
    Kind.WHOLE32: str,
    Kind.TRUTH: _truth,
    Kind.ENUM: _enum,
    Kind.BYTES: _bytes,
}


@cache
def _object_writer(message: Message) -> Writer:
    """The function that writes records of a message; made once, so that a row costs little."""
    names = [f'"{field.json_name}":' for field in message.fields]
    writers = [_value_writer(field) for field in message.fields]
    optional = [field.optional for field in message.fields]

    def write_all(record: Record) -> str:
        members = [
            name + write(value) for name, write, value in zip(names, writers, record, strict=True)
        ]
        return f"{{{','.join(members)}}}"

    def write_set(record: Record) -> str:
        members = [
            name + write(value)
            for name, write, value, absent in zip(names, writers, record, optional, strict=True)
            if not (absent and value is None)
        ]
        return f"{{{','.join(members)}}}"

    return write_set if any(optional) else write_all


def _value_writer(field: Field) -> Writer:
    kind = field.type
    write = _WRITERS[kind] if isinstance(kind, Kind) else _object_writer(kind)
    if field.repeated:
        return lambda values: f"[{','.join(map(write, values))}]"
    if isinstance(kind, Message):
        return lambda value: "null" if value is None else write(value)
    return write
