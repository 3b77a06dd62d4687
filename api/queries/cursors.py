"""Ids and cursors, as clients write them (decisions 17 and 23).

An id is hex of any case that comes in, lower case that goes out; some ids of one byte have names,
both ways. Inside, an id is its lower-case hex, as the warehouse holds it.

A cursor says where a row stands in a listing, as opaque text that outlives snapshots: base64 of
compact JSON with the network's own keys, so that its clients' cursors work. Where these are the
same for two rows of a listing, a cursor has one key more; those of order versions always have it. A
cursor without it is still taken. A value is as the row has it: times are microseconds, ids and
bytes lower-case hex.
"""

from __future__ import annotations

import base64
import json
import re
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

import orjson

from api.core.api_errors import InvalidArgumentError, Reason
from transforms.tables.column_facts import HEX_OF, NAMES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UTC_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - formatting it takes half the time
_MICROSECOND = timedelta(microseconds=1)
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_ALPHABET = re.compile(r"[A-Za-z0-9+/]*")
MIN_MICROS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The network's own "no time": the first moment of year 1."""
MAX_MICROS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_HEX = re.compile(r"([0-9a-fA-F]{2})*")
_KEY = re.compile(r"[0-9a-fA-F]{64}")


class IdError(ValueError):
    """A text that is no id; the message is the network's."""


def parse_id(text: str) -> str:
    """Read an id of any length, or the name of one. Raises `IdError`."""
    hex_id = HEX_OF.get(text)
    if hex_id is not None:
        return hex_id
    if not _HEX.fullmatch(text):
        raise IdError(f"decoding '{text}': not a valid hex id (or well known exception)")
    return text.lower()


def parse_key(text: str) -> str:
    """Read the id of an order, a withdrawal or a party's key: 32 bytes. Raises `IdError`."""
    if not _KEY.fullmatch(text):
        raise IdError(f"'{text}' is not 64 hex digits")
    return text.lower()


def asked_id(
    text: str,
    reason: Reason,
    about: str | None = None,
    parse: Callable[[str], str] = parse_id,
) -> str:
    """An id that a client asks with.

    Raises `InvalidArgumentError` for what is none, which says why after `about`, if that is given.
    """
    try:
        return parse(text)
    except IdError as error:
        inner = "" if about is None else f"{about}{error}"
        raise InvalidArgumentError(reason, inner) from None


def show_id(text: str | None) -> str:
    """An id as it is answered: its name, or lower-case hex; none is empty."""
    return NAMES.get(text, text) if text else ""


def bytes_of(text: str | None) -> bytes:
    """The bytes that hex means; none where a column holds no hex."""
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        return b""


class CursorError(ValueError):
    """A text that is no cursor of this listing; the message, in plain Unicode, says why."""

    def __init__(self, message: str) -> None:
        # JSON may hold half a surrogate pair, which no answer can quote.
        super().__init__(message.encode("utf-8", "replace").decode())


@dataclass(frozen=True, slots=True)
class Form:
    """How a column's value becomes one that JSON has, and is taken from what JSON gave."""

    give: Callable[[Any], Any]
    take: Callable[[Any], Any]


def cursor_time(micros: int | None) -> int:
    """A time as cursors can hold it: the nearest of the years 1 to 9999; none is `MIN_MICROS`."""
    return MIN_MICROS if micros is None else max(MIN_MICROS, min(micros, MAX_MICROS))


@lru_cache(maxsize=4096)
def show_time(micros: int | None) -> str:
    """Microseconds since 1970 as RFC 3339 in UTC, the fraction without trailing zeros."""
    text = (_UTC_EPOCH + timedelta(microseconds=cursor_time(micros))).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


def take_time(value: object) -> int:
    """RFC 3339 in any zone as microseconds since 1970; what is finer is cut off."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise CursorError(f"{value!r:.60} is not a time")
    return (datetime.fromisoformat(value.upper()) - _EPOCH) // _MICROSECOND


def take_bytes(value: object) -> str:
    """Base64 as lower-case hex."""
    if not isinstance(value, str):
        raise CursorError(f"{value!r:.60} is not base64")
    return base64.b64decode(value, validate=True).hex()


def show_bytes(text: str | None) -> str:
    """Hex as base64; what is no hex is no bytes."""
    return b2a_base64(bytes_of(text), newline=False).decode()


def _take_id(value: object) -> str:
    if not isinstance(value, str):
        raise CursorError(f"{value!r:.60} is not an id")
    return parse_id(value)


def _take_number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise CursorError(f"{value!r:.60} is not a number")
    return value


TIME = Form(show_time, take_time)
ID = Form(show_id, _take_id)
BYTES = Form(show_bytes, take_bytes)
NUMBER = Form(lambda number: number or 0, _take_number)

Values = tuple[Any, ...]


class CursorFormat:
    """The cursors of one listing: keys and forms in order; the last `extra` are the further ones.

    A format has one or no extra.
    """

    def __init__(self, *fields: tuple[str, Form], extra: int = 0) -> None:
        self._fields = fields
        self._names = [name for name, _ in fields]
        self.main = len(fields) - extra

    def encode(self, values: Values) -> str:
        """The cursor of a row with these values: all of them, or the first `main`."""
        return self.encode_rows([values], min(len(values), len(self._names)))[0]

    def encode_rows(self, rows: Sequence[Values], length: int | None = None) -> list[str]:
        """The cursors of rows that begin with these values: all, or the first `length`."""
        length = length or len(self._names)
        columns = [*zip(*rows, strict=False)][:length] or [()] * length
        cells = [map(form.give, of) for (_, form), of in zip(self._fields, columns, strict=False)]
        texts = map(orjson.dumps, map(_object(*self._names[:length]), *cells))
        return [b2a_base64(text, newline=False).decode() for text in texts]

    def decode(self, text: str) -> Values:
        """The values of a cursor: all, the first `main`, or none where it stands nowhere.

        Raises `CursorError` for any other text, a cursor of another listing included.
        """
        cursor = _parse(text)
        if not cursor:
            return ()
        names = self._names
        if cursor.keys() not in ({*names}, {*names[: self.main]}):
            raise CursorError(f"it has the keys {', '.join(cursor)}, not {', '.join(names)}"[:200])
        try:
            return tuple(form.take(cursor[name]) for name, form in self._fields if name in cursor)
        except ValueError as error:
            raise CursorError(f"parsing cursor: {error}") from error


@cache
def _object(*names: str) -> Callable[..., dict[str, object]]:
    """What makes dictionaries with these keys: compiled once, so that a row costs little."""
    values = ", ".join(f"v{at}" for at in range(len(names)))
    entries = ", ".join(f"{name!r}: v{at}" for at, name in enumerate(names))
    make: Callable[..., dict[str, object]] = eval(f"lambda {values}: {{{entries}}}")
    return make


def _parse(text: str) -> dict[str, object]:
    try:
        data = base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError:
        raise CursorError(
            f"failed to decode cursor: illegal base64 data at input byte {_illegal(text)}"
        ) from None
    try:
        cursor = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise CursorError(f"parsing cursor: {error}") from None
    if not isinstance(cursor, dict):
        raise CursorError("parsing cursor: it is not an object")
    return cursor


def _illegal(text: str) -> int:
    """Where base64 stops being base64: at the first strange character or the broken last group."""
    whole = _ALPHABET.match(text)
    end = whole.end() if whole else 0
    return end if end < len(text) and text[end] != "=" else end // 4 * 4
