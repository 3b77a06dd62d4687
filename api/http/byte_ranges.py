"""Which bytes of a file a request wants: RFC 9110 sections 13 and 14, as arithmetic.

One range at a time: a request for several gets the whole file, as the standard allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.datastructures import Headers

_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?"[^"]*"|\*')


@dataclass(frozen=True, slots=True)
class Selection:
    """The status to answer with, and the bytes `start` up to, not including, `stop`."""

    status: int
    start: int = 0
    stop: int = 0


def select(method: str, headers: Headers, size: int, etag: str) -> Selection:
    """What to answer to a request for a file of `size` bytes with a strong, quoted `etag`.

    200: all of it, 206: a range, 304: the client has it, 412: it is not what the client expects,
    416: no such range.
    """
    expected, client_tags = headers.get("if-match"), headers.get("if-none-match")
    if expected is not None and not _strongly_matches(expected, etag):
        return Selection(412)
    if client_tags is not None and _weakly_matches(client_tags, etag):
        return Selection(304)
    # Ranges are defined for GET only. A date in If-Range never matches, for we give none.
    if method != "GET" or headers.get("if-range", etag).strip() != etag:
        return Selection(200, 0, size)
    return _range(headers.get("range", ""), size)


def _range(text: str, size: int) -> Selection:
    match = _RANGE.fullmatch(text)
    first, last = match.groups() if match else ("", "")
    if not first and not last:
        return Selection(200, 0, size)
    if not first:
        start, stop = max(0, size - int(last)), size
        return Selection(206, start, stop) if start < stop else Selection(416)
    start = int(first)
    if last and int(last) < start:
        return Selection(200, 0, size)
    if start >= size:
        return Selection(416)
    return Selection(206, start, min(size, int(last) + 1) if last else size)


def _strongly_matches(listed: str, etag: str) -> bool:
    return any(tag in ("*", etag) for tag in _TAG.findall(listed))


def _weakly_matches(listed: str, etag: str) -> bool:
    return any(tag == "*" or tag.removeprefix("W/") == etag for tag in _TAG.findall(listed))
