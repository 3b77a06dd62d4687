"""The text of the archive's JSON documents: fixed bytes, of a known format, sealed.

Sealed means that the last field, `sha256`, is the SHA-256 of all bytes before the comma that
precedes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from exporters.archive.entries import Json
from transforms.errors import IntegrityError, OtherFormatError, SegmentError
from transforms.sealed import check_seal, other_format, seal_text, unseal_text

FORMAT = 2
UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    SegmentError,
)
"""What reading a JSON document that is none, or has other values, can raise."""


_Parsed = TypeVar("_Parsed")
_LINE = ",\n"  # between two fields, or two items of a field's list or map
_REMEDY = ": strata publish makes it again"
_REMAKE = (
    "its keeper publishes the archive again in a new folder, as development formats are not kept"
)
_OLDER = re.compile(rf'\{{\s*"format": ?[1-{FORMAT - 1}],'.encode())


def written(document: Json) -> bytes:
    """A sealed JSON document with one line for every field, and for every item of a list or map.

    It reads well, compares well line by line, and its bytes follow from its values alone.
    """
    return seal_text(f"{{\n{_LINE.join(map(_field, document.items()))}\n}}\n".encode())


def _field(field: tuple[str, Any]) -> str:
    """A field as text: its items a line each."""
    name, value = field
    if isinstance(value, list) and value:
        return f"{dumps(name)}:[\n{_LINE.join(map(dumps, value))}\n]"
    if isinstance(value, dict) and value:
        items = (f"{dumps(key)}:{dumps(item)}" for key, item in value.items())
        return f"{dumps(name)}:{{\n{_LINE.join(items)}\n}}"
    return f"{dumps(name)}:{dumps(value)}"


def dumps(value: object) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def check_document(data: bytes, place: str) -> None:
    """Raise `IntegrityError` where a document does not hash to what it says at its end."""
    check_seal(data, place, _REMEDY)


def parsed(data: bytes, place: str, read: Callable[[Json], _Parsed]) -> _Parsed:
    """Read a JSON document of a known format.

    Raises `IntegrityError` naming the place, `OtherFormatError` where another release wrote it.
    """
    # The first documents had no hash at their end.
    text = data if _OLDER.match(data) else unseal_text(data, place, _REMEDY)
    try:
        document = json.loads(text)
        if document["format"] == FORMAT:
            return read(document)
        problem = other_format(place, document["format"], FORMAT, _REMAKE)
    except UNREADABLE as error:
        raise unreadable(place, error) from error
    raise OtherFormatError(problem)


def unreadable(place: str, error: Exception) -> IntegrityError:
    """The error of a document that cannot be read."""
    return IntegrityError(f"{place} is no document of format {FORMAT} ({error!r}){_REMEDY}")
