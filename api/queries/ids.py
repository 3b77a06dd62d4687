"""Ids: hex of any case in, lower case out; some one-byte ids have names, both ways (decision 23).

Inside, an id is its lower-case hex, as the warehouse holds it.
"""

from __future__ import annotations

import re

from transforms.tables.named_ids import HEX_OF, NAMES

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


def show_id(text: str | None) -> str:
    """An id as it is answered: its name, or lower-case hex; none is empty."""
    return NAMES.get(text, text) if text else ""


def bytes_of(text: str | None) -> bytes:
    """The bytes that hex means; none where a column holds no hex."""
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        return b""
