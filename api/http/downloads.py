"""The export as a download (spec 4.1; decisions 5 and 6).

The ZIP is spliced, so its length, its tag and every byte of it are known before the first one is
sent: a client can resume, ask whether anything changed, and know a cut download from a whole one.

Its SHA-256, which `Repr-Digest` tells (RFC 9530), is known once somebody took all of it; from then
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

from starlette.types import Receive, Scope, Send

from api.core.api_errors import CancelledError
from api.core.clients import Slots
from api.core.workers import Blocks, QueryRunner, Read, Workers
from api.http.answers import (
    client_key,
    departure,
    given_fields,
)
from api.http.calls import read_query
from api.http.file_answers import FileContent, FileSender
from api.http.parameters import QueryPairs, parse_query, read_request, time_limit
from api.operations import EXPORT
from api.queries.export_request import ExportQuery
from exporters.zips.layout import Layout
from transforms.errors import IntegrityError

_MOST = 10_000
_WANTED = re.compile(r"(?:^|,)\s*sha-256\s*=\s*(?:10|[1-9])\s*(?:,|$)")


class Download:
    """The export, asked with `GET`, `HEAD` or a posted form."""

    def __init__(
        self, runner: QueryRunner, exports: ExportQuery, sender: FileSender, slots: Slots
    ) -> None:
        self._runner = runner
        self._exports = exports
        self._sender = sender
        self._slots = slots
        self._digests = Digests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; an error before the first byte has its own status."""
        scope["operation"] = EXPORT.name
        try:
            request = read_request(EXPORT, await _pairs(scope, receive))
            with self._slots.taken(client_key(scope)):
                query, seconds = self._exports.of(request), time_limit(scope, self._runner.seconds)
                layout, _ = await self._runner.run(query, seconds, departure(receive))
                preference = given_fields(scope).get("want-repr-digest")
                if scope["method"] == "HEAD" and is_wanted(preference):
                    await self._digests.find(layout, self._sender.workers, receive)
                await self._sender.send(self._content(layout), scope, receive, send)
        except IntegrityError:
            self._runner.metrics.damaged.inc()
            raise

    def _content(self, layout: Layout) -> FileContent:
        disposition = (b"content-disposition", f"attachment;filename={layout.name}".encode())
        headers = (disposition, *self._digests.header(layout))
        read = self._digests.reader(layout)
        return FileContent(layout.size, layout.etag, "application/zip", read, headers)


async def _pairs(scope: Scope, receive: Receive) -> QueryPairs:
    is_head = scope["method"] == "HEAD"
    return parse_query(scope["query_string"]) if is_head else await read_query(scope, receive)


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
