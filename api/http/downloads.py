"""The export as a download (spec 4.1; decisions 5 and 6).

The ZIP is spliced, so its length, its tag and every byte of it are known before the first one is
sent: a client can resume, ask whether anything changed, and know a cut download from a whole one.
Its SHA-256 is in the head where it is known (see `api.http.digests`).
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from api.core.api_errors import ApiError, CancelledError, MalformedParameterError
from api.core.query_runner import QueryRunner
from api.core.slots import Slots
from api.http.answers import envelope, failure, method_not_allowed
from api.http.connection import client_key, departure
from api.http.digests import Digests, is_wanted
from api.http.file_answers import FileContent, FileSender
from api.http.parameters import parse_query, read_request
from api.operations import EXPORT
from api.queries.export_request import ExportQuery
from exporters.zips.layout import Layout
from transforms.errors import IntegrityError


class Download:
    """`GET` and `HEAD` of the export."""

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
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed()(scope, receive, send)
            return
        try:
            request = read_request(EXPORT, parse_query(scope["query_string"]))
            with self._slots.taken(client_key(scope)):
                query = self._exports.of(request)
                layout, _ = await self._runner.run(query, self._runner.seconds, departure(receive))
                preference = Headers(scope=scope).get("want-repr-digest")
                if scope["method"] == "HEAD" and is_wanted(preference):
                    await self._digests.find(layout, self._sender.workers, receive)
                await self._sender.send(self._content(layout), scope, receive, send)
        except IntegrityError:
            self._runner.metrics.damaged.inc()
            raise
        except MalformedParameterError as error:
            await failure(error)(scope, receive, send)
        except CancelledError:
            return
        except ApiError as error:
            await envelope(error)(scope, receive, send)

    def _content(self, layout: Layout) -> FileContent:
        disposition = (b"content-disposition", f"attachment;filename={layout.name}".encode())
        headers = (disposition, *self._digests.header(layout))
        read = self._digests.reader(layout)
        return FileContent(layout.size, layout.etag, "application/zip", read, headers)
