"""The query of a URL, or the form in a body, as names and values: the gateway's own dialect.

It differs from Python's: a `;` is an error, and so is a `%` that no two hex digits follow.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from api.core.api_errors import MalformedParameterError

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)


def parse_query(query: bytes) -> list[tuple[str, str]]:
    """The names and values in their order, decoded. Raises `MalformedParameterError`."""
    pairs = []
    for piece in query.split(b"&"):
        if b";" in piece:
            raise MalformedParameterError("invalid semicolon separator in query")
        if piece:
            name, _, value = piece.partition(b"=")
            pairs.append((_decoded(name), _decoded(value)))
    return pairs


def _decoded(text: bytes) -> str:
    bad = _BAD_ESCAPE.search(text)
    if bad is not None:
        shown = bad[0].decode("utf-8", "replace")
        raise MalformedParameterError(f'invalid URL escape "{shown}"')
    return unquote_to_bytes(text.replace(b"+", b" ")).decode("utf-8", "replace")
