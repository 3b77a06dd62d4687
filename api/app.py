"""The application: every path with its endpoint, and what happens to every request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.core.api_errors import ApiError, FailedError, Reason
from api.core.connections import Connections
from api.core.server_settings import ServeSettings
from api.core.telemetry import REQUEST_ID
from api.core.workers import QueryRunner
from api.http.answers import Answer, RawHeaders, client_key, encoded, envelope, failure, not_found
from api.http.archive_files import ArchiveFiles
from api.http.calls import CallEndpoint
from api.http.compression import Compression
from api.http.downloads import Download
from api.http.file_answers import FileSender
from api.http.middleware import Cors, Exchanges, Tokens
from api.http.own_pages import ArchivePages, assets, health, metrics_page, ready, status
from api.http.protocol import CONNECTIONS
from api.http.streams import ProvisionStream
from api.operations import CALLS, EXPORT, STREAM
from api.rpc.server import rpc_running
from api.service import Service

_Refuse = Callable[[ApiError, RawHeaders], Answer]


def create_app(settings: ServeSettings, metrics: Path | None = None) -> Starlette:
    """The application of one process; `metrics` is the folder where several count together.

    Its `state.service` is what the requests share.
    """
    service, tokens = Service(settings, metrics), settings.access.tokens

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, Connections]]:
        async with service.running(), rpc_running(service):
            yield {CONNECTIONS: service.connections}

    app = Starlette(
        routes=list(_routes(service)),
        middleware=[
            Middleware(
                Exchanges,
                metrics=service.metrics,
                unread=service.unread,
                stall_seconds=settings.limits.stall_seconds,
            ),
            Middleware(Cors, origins=settings.access.origins),
            Middleware(Compression),
            *([Middleware(Tokens, tokens=tokens)] if tokens else []),
            # Inside of the others, so that a failure is logged, marked and compressed as well.
            Middleware(ServerErrorMiddleware, handler=_unexpected),
        ],
        exception_handlers={HTTPException: _unknown_path, ApiError: _failed},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return app


def _routes(service: Service) -> Iterator[BaseRoute]:
    for path, endpoint in _endpoints(service):
        yield Route(path, endpoint)
    feed = ProvisionStream(service.feed, service.slots)
    stream = _Limited(STREAM.name, feed, service.calls, envelope)
    yield Route(STREAM.path, stream)
    yield WebSocketRoute(STREAM.path, stream)


def _endpoints(service: Service) -> Iterator[tuple[str, ASGIApp]]:
    for operation in CALLS:
        if not operation.path:
            continue
        call = CallEndpoint(operation, service.calls)
        yield operation.path, call
        # A path that ends where its parameter should begin asks for the empty text.
        if operation.path.endswith("}"):
            yield operation.path[: operation.path.rindex("{")], call
    sender = FileSender(service.reading)
    download = Download(service.downloads, service.exports, sender, service.slots)
    yield EXPORT.path, _Limited(EXPORT.name, download, service.calls, envelope)
    page = _Limited(
        "page", ArchivePages(service.snapshots, service.store, service.files), service.calls
    )
    for path in ("/", "/archive", "/archive/"):
        yield path, page
    yield "/archive/{key:path}", ArchiveFiles(service.store, sender, service.files)
    yield "/health", health()
    yield "/ready", ready(service.health)
    yield "/status", _Limited("page", status(service.health), service.calls)
    yield "/metrics", metrics_page(service.metrics)
    for path, asset in assets().items():
        # A page brings its styles and scripts along: they count as one with it.
        yield path, asset if path.startswith("/static/") else _Limited("page", asset, service.calls)


class _Limited:
    """An endpoint whose requests take from their client's bucket, named for log and counters.

    Calls count their requests themselves (`api.http.calls`).
    """

    def __init__(
        self, name: str, endpoint: ASGIApp, runner: QueryRunner, refuse: _Refuse = failure
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._runner = runner
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        admission = self._runner.admit(client_key(scope))
        headers = encoded(admission.headers)
        if admission.refusal is not None:
            scope["operation"] = self._name
            await self._refuse(admission.refusal, headers)(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._endpoint(scope, receive, counted)


async def _unknown_path(_request: Request, _error: Exception) -> Response:
    return not_found()


async def _unexpected(_request: Request, _error: Exception) -> Response:
    """A failure of our own: the log has the traceback under the id that the answer gives."""
    error = FailedError(Reason.UNEXPECTED, f"request {REQUEST_ID.get()}")
    # It is raised again after this, and the server closes the connection then.
    return failure(error, [(b"connection", b"close")])


async def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return failure(error)
