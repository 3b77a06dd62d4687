"""Sealed documents: JSON that ends with a hash of itself, so that no flipped bit is believed.

The last member, `sha256`, is the SHA-256 of all bytes before the comma that precedes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from transforms.errors import IntegrityError

_SEAL = re.compile(rb',\n"sha256": ?"([0-9a-f]{64})"\n\}\n\Z')
_END = b"\n}\n"
_MOST_SEAL_BYTES = 100


def seal(members: Mapping[str, Any]) -> bytes:
    """Write a JSON object, a line for each member and each row of a list, and its hash."""
    text = "{\n" + ",\n".join(f"{json.dumps(name)}: {_text(members[name])}" for name in members)
    return _sealed(text.encode(), ": ")


def seal_text(text: bytes) -> bytes:
    """Add its hash to the text of a JSON object, whose last line is a closing brace alone."""
    return _sealed(text.removesuffix(_END), ":")


def unseal(data: bytes, place: str) -> dict[str, Any]:
    """Read a sealed document, without its hash. Raises `IntegrityError` naming `place`."""
    members: dict[str, Any] = json.loads(unseal_text(data, place))
    return members


def other_format(place: str, found: int, readable: int, remake: str) -> str:
    """Return the sentence about a document of another format; `remake` is what older ones need."""
    remedy = "use a newer release" if found > readable else remake
    return f"{place} has format {found} and this release reads format {readable}: {remedy}"


def read_sealed(path: Path) -> dict[str, Any]:
    """What a sealed document of this machine says; nothing where it is not there, or damaged."""
    with suppress(OSError, IntegrityError):
        if path.is_file():  # a named pipe would wait for a writer
            return unseal(path.read_bytes(), str(path))
    return {}


def unseal_text(data: bytes, place: str, remedy: str = "") -> bytes:
    """The text of a sealed document, without its hash.

    Raises `IntegrityError` naming `place`; `remedy` is how its sentence ends.
    """
    return b"".join((memoryview(data)[: check_seal(data, place, remedy)], _END))


def check_seal(data: bytes, place: str, remedy: str = "") -> int:
    """How many bytes of a sealed document precede its hash. Raises as `unseal_text` does."""
    # A search from the start would try every comma of a large document.
    seal = _SEAL.search(data, max(len(data) - _MOST_SEAL_BYTES, 0))
    if seal is None:
        raise IntegrityError(f"{place} is no whole document: it does not end with its hash{remedy}")
    if hashlib.sha256(memoryview(data)[: seal.start()]).hexdigest() != seal[1].decode():
        raise IntegrityError(
            f"{place} is damaged: it does not hash to the SHA-256 at its end{remedy}"
        )
    return seal.start()


def _sealed(body: bytes, colon: str) -> bytes:
    return body + f',\n"sha256"{colon}"{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode()


def _text(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"
    return json.dumps(value)
