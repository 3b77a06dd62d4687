"""Exact proto-JSON: records as the network's gateway writes them (decision 12).

lowerCamelCase in the order of declaration; 64-bit integers as text; enum values by name; defaults
written out; an unset message is null, an unset optional value absent; no spaces.
"""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from typing import Any

import orjson

from api.core.api_errors import ApiError
from api.core.descriptors import Message, ScalarType
from api.queries.dictionaries import Converter, Kinds, converter
from api.queries.pagination import Record

# What HTML and JavaScript would misread; the gateway escapes it too. All of it stands in strings.
_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "<>&"}
_WIDE_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\u2028\u2029"}
_ERROR_DETAIL = "type.googleapis.com/vega.ErrorDetail"


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
