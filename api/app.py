"""The application: every path with its endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from api.core.api_errors import ApiError, CancelledError, MalformedParameterError
from api.core.server_settings import ServeSettings
from api.core.workers import QueryRunner
from api.http.answers import (
    Answer,
    add_headers,
    client_key,
    envelope,
    failure,
    method_not_allowed,
    not_found,
)
from api.http.archive_files import ArchiveFiles
from api.http.calls import CallEndpoint, UnknownMethodError
from api.http.downloads import Download
from api.http.exchanges import Exchanges
from api.http.own_pages import ArchivePages, own_pages
from api.http.served_database import ServedAddress, ServedDatabase
from api.http.streams import ProvisionStream
from api.operations import CALLS, EXPORT, STREAM
from api.rpc.server import rpc_running
from api.service import Service

_Refuse = Callable[[ApiError], Answer]
_ARCHIVE = "/archive/"


class Application(Router):
    """The application of one process; `metrics` is the folder where several count together.

    `service` is what its requests share, `watch` what it does besides.
    """

    def __init__(self, settings: ServeSettings, metrics: Path | None = None) -> None:
        self.service = Service(settings, metrics)
        self.watch: asyncio.Task[None] | None = None
        exchanges = Exchanges(_Paths(self.service), self.service)
        super().__init__(redirect_slashes=False, default=exchanges, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _app: object) -> AsyncIterator[None]:
        async with self.service.running(), rpc_running(self.service):
            yield


class _Paths:
    """Hands requests to the endpoints of their paths, of which some end with a parameter."""

    def __init__(self, service: Service) -> None:
        self._whole: dict[str, ASGIApp] = {}
        self._begun: dict[str, tuple[ASGIApp, str]] = {}
        self._nothing = not_found(), ""
        for path, endpoint in _endpoints(service):
            begin, brace, name = path.rstrip("}").partition("{")
            # A path that ends where its parameter should begin asks for the empty text.
            self._whole.setdefault(begin, endpoint)
            if brace:
                self._begun[begin] = endpoint, name
        self._folders = _Limited("page", self._begun[_ARCHIVE][0], service.calls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path: str = scope["path"]
        if scope["type"] == "websocket" and path != STREAM.path:
            await send({"type": "websocket.close"})
            return
        scope["path_params"] = {}
        endpoint = self._whole.get(path)
        if endpoint is None:
            begin = _ARCHIVE if path.startswith(_ARCHIVE) else path[: path.rfind("/") + 1]
            endpoint, name = self._begun.get(begin, self._nothing)
            scope["path_params"][name] = path[len(begin) :]
            if begin == _ARCHIVE and path.endswith("/"):
                endpoint = self._folders  # to list one may cost as much as a page
        await endpoint(scope, receive, send)


def _endpoints(service: Service) -> Iterator[tuple[str, ASGIApp]]:
    for operation in CALLS:
        if operation.path:
            call = CallEndpoint(operation, service.calls)
            yield operation.path, _Limited(operation.name, call, service.calls, call.refusal)
    yield STREAM.path, _Limited(STREAM.name, ProvisionStream(service), service.calls, envelope)
    yield EXPORT.path, _Limited(EXPORT.name, Download(service), service.calls, envelope)
    address = ServedAddress(service.settings.locations.public_url, service.settings.listen)
    page = _Limited("page", ArchivePages(service, address), service.calls)
    for path in ("/", "/archive", _ARCHIVE):
        yield path, page
    database = ServedDatabase(service.snapshots, service.store, service.warehouse.cache)
    yield f"{_ARCHIVE}{{key}}", ArchiveFiles(service, database, address)
    for path, own in own_pages(service.health, service.metrics).items():
        # A page brings its styles and scripts along: they count as one with it.
        is_free = own.name != "page" or path.startswith("/static/")
        yield path, own if is_free else _Limited("page", own, service.calls)


@dataclass(frozen=True, slots=True)
class _Limited:
    """An endpoint whose requests take from their client's bucket, named for log and counters.

    It may raise what a client did wrong, before it sends anything.
    """

    name: str
    endpoint: ASGIApp
    runner: QueryRunner
    refuse: _Refuse = failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        scope["operation"] = self.name
        admission = self.runner.admit(client_key(scope))
        add_headers(scope, admission.headers)
        try:
            if admission.refusal is not None:
                raise admission.refusal
            await self.endpoint(scope, receive, send)
        except UnknownMethodError:
            await method_not_allowed()(scope, receive, send)
        except MalformedParameterError as error:
            await failure(error)(scope, receive, send)
        except CancelledError:
            return
        except ApiError as error:
            await self.refuse(error)(scope, receive, send)
