"""Gzip where a client asks for it: whole answers, and streams message by message.

What has a strong ETag or is a range stays as it is. Those are files, whose bytes are counted and
hashed as they lie; most are ZIPs. What is large is compressed in a thread, so that the event loop
goes on serving others.
"""

from __future__ import annotations

import asyncio
import re

from isal import isal_zlib
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Send

_GZIP = 16 + isal_zlib.MAX_WBITS
_WANTED = re.compile(r"(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q\s*=\s*(?P<weight>[0-9.]+)\s*)?(?:,|$)")
_WITHOUT_BODY = (204, 304)
# Handing less over to a thread would take longer than compressing it.
_LARGE_BYTES = 64 * 1024


def wants_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header names gzip with a weight above 0."""
    match = _WANTED.search(accepted.lower())
    return match is not None and (match["weight"] or "1").strip("0.") != ""


class Squeezed:
    """Sends an answer on, compressed. Its head waits for the body, which says how long it is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None
        self._stream = isal_zlib.compressobj(1, wbits=_GZIP)
        self._plain = False

    async def send(self, message: Message) -> None:
        """Send a message on."""
        if message["type"] == "http.response.start":
            self._plain = _must_stay(message)
            if not self._plain:
                self._head = message
                return
        elif not self._plain:
            message = await self._squeezed(message)
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)
        await self._send(message)

    async def _squeezed(self, message: Message) -> Message:
        more, plain = message.get("more_body", False), message.get("body", b"")
        if len(plain) < _LARGE_BYTES:
            body = self._compressed(plain, more)
        else:
            body = await asyncio.to_thread(self._compressed, plain, more)
        if self._head is not None:
            headers = MutableHeaders(scope=self._head)
            headers["content-encoding"] = "gzip"
            headers.append("vary", "Accept-Encoding")
            if more:
                del headers["content-length"]
            else:
                headers["content-length"] = str(len(body))
        return {"type": "http.response.body", "body": body, "more_body": more}

    def _compressed(self, plain: bytes, more: bool) -> bytes:
        # A stream's message must not wait for the next one to fill a block.
        end = isal_zlib.Z_SYNC_FLUSH if more else isal_zlib.Z_FINISH
        squeezed: bytes = self._stream.compress(plain) + self._stream.flush(end)
        return squeezed


def _must_stay(head: Message) -> bool:
    headers = Headers(scope=head)
    return (
        head["status"] in _WITHOUT_BODY
        or headers.get("etag", "").startswith('"')
        or "content-range" in headers
    )
