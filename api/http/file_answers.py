"""Sending a file of known size and tag: whole, a range of it, or nothing new (RFC 9110).

Memory is one block, whatever the size. What goes wrong after the head has left ends the connection
before the announced length: an incomplete file never looks whole.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from api.core.blocks import Blocks, Read
from api.core.errors import ApiError, Code
from api.core.logs import log
from api.core.workers import Workers
from api.http.answers import RawHeaders, refusal
from api.http.byte_ranges import Selection, select
from api.http.connection import departure

# A client that takes a piece of this size within the time for a stall is slow, but alive.
_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class FileContent:
    """`size` bytes with a strong, quoted `etag`; what `read` raises is the file's damage."""

    size: int
    etag: str
    content_type: str
    read: Read
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class FileSender:
    """Sends files to clients; `workers` read them. A client may stall for `stall_seconds`."""

    workers: Workers
    stall_seconds: float

    async def send(self, content: FileContent, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one GET or HEAD request for the file."""
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
        blocks = None
        if selection.stop > selection.start and scope["method"] != "HEAD":
            # The first block before the head: damage found by then still has a status of its own.
            blocks = Blocks(self.workers, content.read, selection.start, selection.stop)
            await blocks.advance()
        head = {"status": selection.status, "headers": [*_headers(content, selection)]}
        await send({"type": "http.response.start", **head})
        if blocks is None:
            await send({"type": "http.response.body"})
        else:
            await self._send_blocks(blocks, receive, send)

    async def _send_blocks(self, blocks: Blocks, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(departure(receive)())
        # Where this returns early, the server ends the connection before the announced length.
        try:
            while (block := blocks.present) is not None:
                for at in range(0, len(block), _PIECE_BYTES):
                    if gone.done():
                        return
                    piece = block[at : at + _PIECE_BYTES]
                    async with asyncio.timeout(self.stall_seconds):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                await blocks.advance()
            await send({"type": "http.response.body"})
        except TimeoutError:
            log.warning("a client took nothing for %g seconds", self.stall_seconds)
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
