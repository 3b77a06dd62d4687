"""The export as a download (spec 4.1; decisions 5 and 6).

The ZIP is spliced, so its length, its tag and every byte of it are known before the first one is
sent: a client can resume, ask whether anything changed, and tell a cut download from a whole one.
"""

from __future__ import annotations

from functools import partial

from starlette.types import Receive, Scope, Send

from api.answers import envelope, failure, method_not_allowed
from api.errors import ApiError, CancelledError, MalformedParameterError
from api.exports import ExportNetworkHistory, lay_out, read_export
from api.file_answers import FileContent, FileSender
from api.metrics import Metrics
from api.parts import PartFinder
from api.query_strings import parse_query
from api.rate_limit import client_key
from api.slots import Slots
from api.snapshots import Snapshots
from api.work import Cancellation, Workers
from exporters.layout import Layout
from transforms.errors import IntegrityError


class Download:
    """`GET` and `HEAD` of the export. `workers` find the parts, for at most `seconds`."""

    def __init__(
        self,
        snapshots: Snapshots,
        parts: PartFinder,
        workers: Workers,
        seconds: float,
        sender: FileSender,
        slots: Slots,
        metrics: Metrics,
    ) -> None:
        self._snapshots = snapshots
        self._parts = parts
        self._workers = workers
        self._seconds = seconds
        self._sender = sender
        self._slots = slots
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; an error before the first byte has its own status."""
        scope["operation"] = "export"
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed()(scope, receive, send)
            return
        try:
            request = read_export(parse_query(scope["query_string"]))
            with self._slots.taken(client_key(scope)):
                job = partial(self._lay_out, request)
                layout = await self._workers.run(job, self._seconds, receive)
                await self._sender.send(_content(layout), scope, receive, send)
        except IntegrityError:
            self._metrics.damaged.inc()
            raise
        except MalformedParameterError as error:
            await failure(error)(scope, receive, send)
        except CancelledError:
            return
        except ApiError as error:
            await envelope(error)(scope, receive, send)

    def _lay_out(self, request: ExportNetworkHistory, cancellation: Cancellation) -> Layout:
        with (
            self._snapshots.reading() as reading,
            cancellation.interrupting(reading.interrupt),
        ):
            return lay_out(reading, request, self._parts, cancellation)


def _content(layout: Layout) -> FileContent:
    named = (b"content-disposition", f"attachment;filename={layout.name}".encode())
    return FileContent(layout.size, layout.etag, "application/zip", layout.read, (named,))
