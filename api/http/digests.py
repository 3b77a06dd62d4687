"""The SHA-256 of exports, as the header `Repr-Digest` tells it (RFC 9530).

An export is spliced while it is sent, so its hash is known once somebody took all of it; from then
on it is in the head of each answer. Before that a client may ask for it with a HEAD request that
says `Want-Repr-Digest: sha-256=1`, for which the ZIP is read once. There is no trailer: a trailer
takes a chunked body, without the length by which a client knows a download that was cut.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from base64 import b64encode
from collections import OrderedDict

from starlette.types import Receive

from api.core.api_errors import CancelledError
from api.core.file_blocks import Blocks, Read
from api.core.workers import Workers
from api.http.connection import departure
from exporters.zips.layout import Layout

_MOST = 10_000
_WANTED = re.compile(r"(?:^|,)\s*sha-256\s*=\s*(?:10|[1-9])\s*(?:,|$)")


class Digests:
    """What exports hash to, by their tags, of which the `_MOST` newest are kept; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._digests: OrderedDict[str, bytes] = OrderedDict()

    def header(self, layout: Layout) -> tuple[tuple[bytes, bytes], ...]:
        """The header of an answer; nothing where the hash is not known yet."""
        with self._lock:
            digest = self._digests.get(layout.etag)
            if digest is None:
                return ()
            self._digests.move_to_end(layout.etag)
        return ((b"repr-digest", b"sha-256=:" + b64encode(digest) + b":"),)

    def reader(self, layout: Layout) -> Read:
        """What reads an export; who takes all of it, block after block, makes its hash known."""
        if self.header(layout):
            return layout.block
        digest, hashed = hashlib.sha256(), 0

        def read(start: int, stop: int) -> bytes:
            nonlocal hashed
            block = layout.block(start, stop)
            if start == hashed:
                digest.update(block)
                hashed = stop
                if hashed == layout.size:
                    self._keep(layout.etag, digest.digest())
            return block

        return read

    async def find(self, layout: Layout, workers: Workers, receive: Receive) -> None:
        """Make the hash known: the whole ZIP is read in threads, as long as the client waits.

        Raises `CancelledError` where it does not, `IntegrityError` where a source is short.
        """
        if self.header(layout):
            return
        gone = asyncio.create_task(departure(receive)())
        blocks = Blocks(workers, self.reader(layout), 0, layout.size)
        try:
            while await blocks.next() is not None:
                if gone.done():
                    raise CancelledError
        finally:
            gone.cancel()

    def _keep(self, etag: str, digest: bytes) -> None:
        with self._lock:
            self._digests[etag] = digest
            while len(self._digests) > _MOST:
                self._digests.popitem(last=False)


def is_wanted(field: str | None) -> bool:
    """Whether a `Want-Repr-Digest` asks for SHA-256, however much it prefers others."""
    return field is not None and _WANTED.search(field) is not None
