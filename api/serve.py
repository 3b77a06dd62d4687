"""`strata serve`: the read API over HTTP and gRPC, in one process or several."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

import click
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from api.app import Application
from api.core.server_settings import ServeSettings, is_loopback, read_settings
from api.core.sockets import host_and_port, listening, reserved
from api.core.telemetry import log, log_config
from api.http.bounded_websocket import BoundedWebSocket
from api.http.protocol import MOST_MESSAGE_BYTES, BoundedHttp
from exporters.locations import Locations, set_for_library
from transforms.duck_errors import Error as DuckError
from transforms.errors import StrataError
from transforms.scratch import temporary_folder

_PARENT_SECONDS = 1.0
_POLL_SECONDS = 0.1


@click.command("serve")
@click.option("--host", help="Address to listen on [STRATA_API_HOST, 127.0.0.1].")
@click.option("--port", type=int, help="Port, 0 for any free one [STRATA_API_PORT, 3008].")
@click.option("--grpc-port", type=int, help="The same for gRPC [STRATA_API_GRPC_PORT, 3007].")
@click.option("--http/--no-http", default=None, help="Serve HTTP [STRATA_API_HTTP, 1].")
@click.option("--grpc/--no-grpc", default=None, help="Serve gRPC [STRATA_API_GRPC, 1].")
@click.option("--workers", type=click.IntRange(1), help="Processes [STRATA_API_WORKERS, 1].")
@click.option(
    "--warehouse",
    metavar="PLACE",
    help="Folder or s3:// address of the warehouse [STRATA_WAREHOUSE].",
)
@click.option("--archive", metavar="PLACE", help="Folder or s3:// address [STRATA_ARCHIVE].")
def serve(warehouse: str | None, archive: str | None, **listen: str | int | None) -> None:
    """Answer queries over the newest loaded data, serve the archive, build downloads of any range.

    New data is picked up by itself. SIGTERM lets running requests finish.
    """
    settings = read_settings(warehouse=warehouse, archive=archive, **listen)
    _leave_on_signals()
    with ExitStack() as stack:
        where = settings.listen
        listeners = []
        lines = []
        if where.http:
            listeners.append(stack.enter_context(listening(where, settings.limits.stall_seconds)))
            port = listeners[0].getsockname()[1]
            lines.append(f"Listening on http://{host_and_port(where.host, port)}")
        if where.grpc:
            port = stack.enter_context(reserved(where.host, where.grpc_port))
            settings = replace(settings, listen=replace(where, grpc_port=port))
            lines.append(f"Listening on {host_and_port(where.host, port)} for gRPC")
        lines += _absent(settings.locations)
        if not is_loopback(where.host) and not settings.access.tokens:
            lines.append("Anyone who reaches this address may read: see STRATA_API_TOKENS.")
        _serve(settings, listeners, "\n".join(lines))


def _absent(places: Locations) -> Iterator[str]:
    """A sentence for each folder that is not there; it may be made while the server runs."""
    for name, place, command in (
        ("warehouse", places.warehouse, "load"),
        ("archive", places.archive, "publish"),
    ):
        if "://" not in place and not Path(place).expanduser().exists():
            yield (
                f"There is no {name} {place}: name another, or nothing of it is served until "
                f"`strata {command}` has made it."
            )


def _serve(settings: ServeSettings, listeners: Sequence[socket.socket], greeting: str) -> None:
    """Serve until a signal; without listeners for HTTP this only runs the processes for gRPC."""
    if settings.listen.workers == 1:
        _Server(_config(settings, partial(worker_app, settings)), greeting).run([*listeners])
        return
    with temporary_folder(prefix="strata-metrics-") as folder:
        # Where the workers' prometheus_client, which reads no settings of ours, counts together.
        set_for_library("PROMETHEUS_MULTIPROC_DIR", str(folder))
        start = WorkerStart(folder)
        app = partial(start.app, settings, os.getpid())
        _Processes(_config(settings, app), [*listeners], greeting).run()
        start.check()


class _Server(uvicorn.Server):
    """One process, which greets when it serves."""

    def __init__(self, config: uvicorn.Config, greeting: str) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        if self.started:
            click.echo(self._greeting)


class _Processes(Multiprocess):
    """Several processes, which each listen on their own: they greet when they do."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], greeting: str) -> None:
        super().__init__(config, sockets)
        self._greeting = greeting

    def init_processes(self) -> None:
        """Begin them, and wait until all serve, one has failed, or a signal comes."""
        super().init_processes()
        waiting = [*self.processes]
        while waiting and all(process.process.is_alive() for process in waiting):
            self.handle_signals()
            if self.should_exit.is_set():
                return
            waiting = [worker for worker in waiting if not worker.wait_until_ready(_POLL_SECONDS)]
        if not waiting:
            click.echo(self._greeting)


def _config(settings: ServeSettings, app: Callable[[], Application]) -> uvicorn.Config:
    listen = settings.listen
    return uvicorn.Config(
        app,
        factory=True,
        http=partial(BoundedHttp, settings.limits),  # type: ignore[arg-type]  # it is called only
        ws=BoundedWebSocket,
        ws_max_size=MOST_MESSAGE_BYTES,
        workers=listen.workers,
        log_config=log_config(listen.log_level),
        access_log=False,
        server_header=False,
        forwarded_allow_ips=list(listen.proxies),
        timeout_keep_alive=settings.limits.idle_seconds,  # type: ignore[arg-type]  # any number does
        timeout_graceful_shutdown=settings.limits.stop_seconds,
    )


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """How the first processes of several started, in the folder where they count together.

    What kept one from it is raised by the process that began them, as it would be in one alone.
    """

    folder: Path

    def app(self, settings: ServeSettings, parent: int) -> Application:
        """The application of one of them. Exits where it cannot be."""
        try:
            app = worker_app(settings, self.folder, parent)
        except (StrataError, OSError, DuckError) as error:
            if self._succeeded.exists():
                # The others go on serving; this one is begun anew until it can.
                log.error("a process could not start and is started again: %s", error)  # noqa: TRY400
                os._exit(1)
            self._failure.write_bytes(pickle.dumps(error))
            # Not by way of the interpreter's end, where DuckDB's client tells of objects left over.
            os._exit(STARTUP_FAILURE)
        self._succeeded.touch()
        return app

    def check(self) -> None:
        """Raise what kept the first processes from starting, once they have ended."""
        if self._failure.exists() and not self._succeeded.exists():
            error: Exception = pickle.loads(self._failure.read_bytes())
            raise error

    @property
    def _succeeded(self) -> Path:
        return self.folder / "started"

    @property
    def _failure(self) -> Path:
        return self.folder / "failure.pickle"


def worker_app(
    settings: ServeSettings, metrics: Path | None = None, parent: int | None = None
) -> Application:
    """The application of one process; its streams end when the server has to stop.

    Of several, it counts in the folder `metrics` and ends with the process `parent`.
    """
    app = Application(settings, metrics)
    loop = asyncio.get_running_loop()
    if parent is not None:
        app.watch = loop.create_task(_outlived(parent))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _preceded(signal.getsignal(number), loop, app.service.stop))
    _keep_from_collections()
    return app


def _keep_from_collections() -> None:
    """Have no collection go over what is loaded by now, which stays, while all answers wait."""
    gc.collect()
    gc.freeze()
    # A page of 1,000 rows makes 10,000 objects, and no cycles: a tenth of its time went into these.
    # Cycles hold what clients have not taken yet: at 20,000 a process would hold more than it may.
    gc.set_threshold(3_000)
    # At the interpreter's end all goes, or DuckDB's client tells of objects left over.
    atexit.register(gc.unfreeze)


def _preceded(
    following: object, loop: asyncio.AbstractEventLoop, stop: Callable[[], object]
) -> Callable[[int, FrameType | None], None]:
    """A signal handler that calls `stop` first: the server waits for streams, which never end."""

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)
        if callable(following):
            following(number, frame)

    return handle


async def _outlived(parent: int) -> None:
    """Stop this process when its parent was killed and could not stop it."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_SECONDS)
    signal.raise_signal(signal.SIGTERM)


def _leave_on_signals() -> None:
    """Exit normally: the server raises a signal again once its requests are finished."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
        # Several processes are begun anew instead.
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
