"""Sending a file of known size and tag: whole, a range of it, or nothing new (RFC 9110).

Memory is one block, whatever the size. What goes wrong after the head has left ends the connection
before the announced length: an incomplete file never looks whole. A request for several ranges gets
the whole file, as the standard allows.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from api.core.api_errors import ApiError, Code
from api.core.workers import BLOCK_BYTES, Read, Workers, blocks
from api.http.answers import RawHeaders, departure, refusal, room_of

_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?"[^"]*"|\*')


@dataclass(frozen=True, slots=True)
class FileContent:
    """`size` bytes with a strong, quoted `etag`; what `read` raises is the file's damage."""

    size: int
    etag: str
    content_type: str
    read: Read
    headers: tuple[tuple[bytes, bytes], ...] = ()


async def send_file(
    workers: Workers, content: FileContent, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer one GET or HEAD request for a file, which `workers` read."""
    selection = select(scope["method"], Headers(scope=scope), content.size, content.etag)
    if selection.status == 416:
        headers = ((b"content-range", f"bytes */{content.size}".encode()),)
        answer = refusal(Code.OUT_OF_RANGE, f"the file has {content.size} bytes", 416, headers)
        await answer(scope, receive, send)
        return
    if selection.status == 412:
        answer = refusal(Code.FAILED_PRECONDITION, "the file is another one by now", 412)
        await answer(scope, receive, send)
        return
    to_send = None
    if selection.stop > selection.start and scope["method"] != "HEAD":
        # The first block before the head: damage found by then still has a status of its own.
        room_of(scope).take(min(BLOCK_BYTES, selection.stop - selection.start))
        parts = blocks(workers, content.read, selection.start, selection.stop)
        to_send = await anext(parts), parts
    head = {"status": selection.status, "headers": [*_headers(content, selection)]}
    await send({"type": "http.response.start", **head})
    if to_send is not None:
        await _send_blocks(*to_send, receive, send)
    else:
        await send({"type": "http.response.body"})


async def _send_blocks(
    block: bytes, following: AsyncGenerator[bytes], receive: Receive, send: Send
) -> None:
    """Send blocks; where this ends early, the server ends the connection before its length."""
    gone = asyncio.create_task(departure(receive)())
    try:
        await send({"type": "http.response.body", "body": block, "more_body": True})
        async for each in following:
            if gone.done():
                return
            await send({"type": "http.response.body", "body": each, "more_body": True})
        await send({"type": "http.response.body"})
    except ApiError:
        return  # the log says what is away
    finally:
        gone.cancel()


def _headers(content: FileContent, selection: Selection) -> RawHeaders:
    yield b"etag", content.etag.encode()
    # Asking again is cheap; a file that was replaced for a reason must be seen.
    yield b"cache-control", b"no-cache"
    if selection.status == 304:
        return
    yield b"accept-ranges", b"bytes"
    yield b"content-type", content.content_type.encode()
    yield b"content-length", str(selection.stop - selection.start).encode()
    if selection.status == 206:
        span = f"bytes {selection.start}-{selection.stop - 1}/{content.size}"
        yield b"content-range", span.encode()
    yield from content.headers


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
