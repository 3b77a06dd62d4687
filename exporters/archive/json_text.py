"""The text of the archive's JSON documents: fixed bytes, of a known format, sealed.

Sealed means that the last field, `sha256`, is the SHA-256 of all bytes before the comma that
precedes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from exporters.archive.entries import Json
from transforms.errors import IntegrityError, SegmentError
from transforms.sealed import check_seal, seal_text, unseal_text

FORMAT = 1
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
    """Read a JSON document of a known format. Raises `IntegrityError` naming the place."""
    try:
        document = json.loads(unseal_text(data, place, _REMEDY))
        if document["format"] != FORMAT:
            raise IntegrityError(
                f"{place} has format {document['format']}, this release reads format {FORMAT}: "
                "use the release that wrote it, or a newer one"
            )
        return read(document)
    except UNREADABLE as error:
        raise unreadable(place, error) from error


def unreadable(place: str, error: Exception) -> IntegrityError:
    """The error of a document that cannot be read."""
    return IntegrityError(f"{place} is no document of format {FORMAT} ({error!r}){_REMEDY}")
