"""The archive's page at `/` and `/archive/`: what exists, what is missing, how to get it."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from api.core.snapshots import Snapshots
from api.core.workers import Workers
from api.http.answers import HTML, PAGE_HEADERS, Answer, method_not_allowed
from api.http.connection import departure, room_of
from api.http.pages.archive_page import archive_page, view_archive
from transforms.errors import IntegrityError
from transforms.stores.store import Store


class ArchivePages:
    """Answers `GET` and `HEAD`."""

    def __init__(self, snapshots: Snapshots, store: Store, workers: Workers) -> None:
        self._snapshots = snapshots
        self._store = store
        self._workers = workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["operation"] = "page"
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed()(scope, receive, send)
            return
        # Relative links: a proxy may have the server below a path of its own.
        base = ".." if scope["path"].endswith("/archive/") else "."
        body = await self._workers.run(lambda _: self._page(base), departure=departure(receive))
        room_of(scope).take(len(body))
        answer = Answer(200, body, HTML, ((b"cache-control", b"no-cache"), *PAGE_HEADERS))
        await answer(scope, receive, send)

    def _page(self, base: str) -> bytes:
        snapshot = self._snapshots.current
        if snapshot is not None and snapshot.segment_lists is None:
            self._snapshots.check_rows()
        if snapshot is None:
            return archive_page(view_archive(None, self._store), base)
        try:
            return archive_page(view_archive(snapshot.catalog, self._store), base)
        except IntegrityError as error:
            raise self._snapshots.refusal(snapshot) or error from error
