"""The export as a download (spec 4.1; decisions 5 and 6).

The ZIP is spliced, so its length, its tag and every byte of it are known before the first one is
sent: a client can resume, ask whether anything changed, and know a cut download from a whole one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from starlette.types import Receive, Scope, Send

from api.http.answers import client_key, departure
from api.http.calls import read_query
from api.http.file_answers import FileContent, send_file
from api.http.parameters import QueryPairs, parse_query, read_request, time_limit
from api.operations import EXPORT
from api.service import Service
from exporters.zips.layout import Layout
from transforms.errors import IntegrityError


@dataclass(frozen=True, slots=True)
class Download:
    """The export, asked with `GET`, `HEAD` or a posted form."""

    service: Service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; an error before the first byte has its own status."""
        try:
            request = read_request(EXPORT, await _pairs(scope, receive))
            with self.service.slots.taken(client_key(scope)):
                query = partial(self.service.exports.lay_out, request)
                runner = self.service.downloads
                layout, _ = await runner.run(query, departure(receive), time_limit(scope))
                await send_file(self.service.reading, _content(layout), scope, receive, send)
        except IntegrityError:
            self.service.metrics.damaged.inc()
            raise


def _content(layout: Layout) -> FileContent:
    disposition = (b"content-disposition", f"attachment;filename={layout.name}".encode())
    return FileContent(layout.size, layout.etag, "application/zip", layout.block, (disposition,))


async def _pairs(scope: Scope, receive: Receive) -> QueryPairs:
    is_head = scope["method"] == "HEAD"
    return parse_query(scope["query_string"]) if is_head else await read_query(scope, receive)
