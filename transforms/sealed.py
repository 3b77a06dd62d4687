"""Sealed documents: JSON that ends with a hash of itself, so that no flipped bit is believed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from transforms.errors import IntegrityError

_SEAL = re.compile(rb',\n"sha256": "([0-9a-f]{64})"\n\}\n\Z')


def seal(members: Mapping[str, Any]) -> bytes:
    """Write a JSON object, a line for each member and each row of a list, and its hash.

    The last member, `sha256`, is the SHA-256 of all bytes before the comma that precedes it.
    """
    text = "{\n" + ",\n".join(f"{json.dumps(name)}: {_text(members[name])}" for name in members)
    body = text.encode()
    return body + f',\n"sha256": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode()


def unseal(data: bytes, place: str) -> dict[str, Any]:
    """Read a sealed document, without its hash. Raises `IntegrityError` naming `place`."""
    found = _SEAL.search(data)
    if found is None:
        raise IntegrityError(f"{place} is no whole document: it does not end with its hash")
    body = data[: found.start()]
    if hashlib.sha256(body).hexdigest() != found[1].decode():
        raise IntegrityError(f"{place} is damaged: it does not hash to the SHA-256 at its end")
    members: dict[str, Any] = json.loads(body + b"}")
    return members


def _text(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"
    return json.dumps(value)
