"""A real server: uvicorn on a port of its own, in a thread or in processes."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx2
import uvicorn

from api.app import Application
from api.core.server_settings import Access, Limits, Listen, ServeSettings
from api.core.sockets import listening, reserved
from api.core.workers import Cancellation
from api.http.bounded_websocket import BoundedWebSocket
from api.http.protocol import BoundedHttp
from api.service import Service
from exporters.locations import Locations
from tests.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 30


def settings(
    locations: Locations,
    limits: Limits | None = None,
    access: Access | None = None,
    *,
    grpc: bool = False,
) -> ServeSettings:
    """Settings under which nothing waits: new snapshots are looked for all the time.

    HTTP only, unless `grpc` is wanted as well.
    """
    chosen = limits or Limits()
    return ServeSettings(
        locations,
        Listen(port=0, grpc_port=0, grpc=grpc),
        replace(chosen, poll_seconds=0.02, lag_seconds=0.1),
        access or Access(rate=0.0),
    )


@dataclass(frozen=True)
class Served:
    """A server at work, and what its requests share."""

    url: str
    port: int
    grpc_port: int
    service: Service
    loop: asyncio.AbstractEventLoop

    def stop_streams(self) -> None:
        """What a process does when it is told to stop."""
        self.loop.call_soon_threadsafe(self.service.stop)

    @contextmanager
    def client(self) -> Iterator[httpx2.Client]:
        with httpx2.Client(base_url=self.url, timeout=_SECONDS) as client:
            yield client


@contextmanager
def serving(given: ServeSettings, send_buffer: int | None = None) -> Iterator[Served]:
    """Serve from a thread of this process for the length of a block.

    A small `send_buffer` makes the kernel keep little for readers that are slow.
    """
    with (
        listening(given.listen, given.limits.stall_seconds) as listener,
        reserved(given.listen.host, given.listen.grpc_port) as grpc_port,
    ):
        given = replace(given, listen=replace(given.listen, grpc_port=grpc_port))
        if send_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        port = listener.getsockname()[1]
        started: queue.Queue[tuple[Service, asyncio.AbstractEventLoop]] = queue.Queue()
        servers: list[uvicorn.Server] = []

        def run() -> None:
            def application() -> object:
                app = Application(given)
                started.put((app.service, asyncio.get_running_loop()))
                return app

            config = uvicorn.Config(
                application,
                factory=True,
                http=partial(BoundedHttp, given.limits),  # type: ignore[arg-type]
                ws=BoundedWebSocket,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=given.limits.stop_seconds,
            )
            servers.append(uvicorn.Server(config))
            servers[0].run([listener])

        thread = threading.Thread(target=run)
        thread.start()
        service, loop = started.get(timeout=_SECONDS)
        while not servers[0].started:  # its ports answer from then on
            thread.join(0.005)
            assert thread.is_alive()
        try:
            yield Served(f"http://127.0.0.1:{port}", port, grpc_port, service, loop)
        finally:
            servers[0].should_exit = True
            thread.join(_SECONDS)
            assert not thread.is_alive()


@contextmanager
def occupied(served: Served, jobs: int) -> Iterator[None]:
    """Keep the threads that answer calls, and their queue, busy with something else."""
    began, go = threading.Semaphore(0), threading.Event()

    def wait(_: Cancellation) -> None:
        began.release()
        go.wait(30)

    queries = served.service.queries
    busy = [asyncio.run_coroutine_threadsafe(queries.run(wait), served.loop) for _ in range(jobs)]
    assert began.acquire(timeout=30)
    wait_until(lambda: queries.pending >= jobs)
    try:
        yield
    finally:
        go.set()
        for job in busy:
            job.result(30)


class ServerProcess:
    """`strata serve` as a process of its own, as it is run for real."""

    def __init__(
        self,
        locations: Locations,
        *options: str,
        files: str = "",
        through: Sequence[str] = (),
        **variables: str,
    ) -> None:
        """`files` is how many it may have open, if that is not what this process may.

        `through` is a command that runs the one behind it, such as `setpriv`.
        """
        environment = {
            **os.environ,
            "STRATA_SOURCE": locations.source,
            **({"STRATA_CACHE": str(locations.cache)} if locations.cache else {}),
            **{f"STRATA_API_{name}": value for name, value in variables.items()},
        }
        command = "from api.serve import serve; serve()"
        if files:
            limit = f"setrlimit(RLIMIT_NOFILE, ({files}, {files}))"
            command = f"from resource import *; {limit}; {command}"
        ports = ("--port", "0", "--grpc-port", "0")
        given = (*ports, "--warehouse", str(locations.warehouse), "--archive", locations.archive)
        # A pipe would fill up with the log, and the server wait for somebody to read it.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
        self._process = subprocess.Popen(
            [*through, sys.executable, "-c", command, *given, *options],
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.greeting = self.read_line()
        found = re.search(r"http://\S+", self.greeting)
        self.url = found[0] if found else ""
        self.grpc_port = 0
        if "--no-grpc" not in options:
            line = self.greeting if "--no-http" in options else self.read_line()
            address = re.fullmatch(r"Listening on \S+:(\d+) for gRPC\n", line)
            self.grpc_port = int(address[1]) if address else 0

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.terminate()
        self._process.communicate(timeout=_SECONDS)
        self._log.close()

    def read_line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout
        return self._process.stdout.readline()

    @property
    def port(self) -> int:
        """The port of HTTP."""
        return int(self.url.rpartition(":")[2])

    def memory(self) -> int:
        """How many bytes of memory it holds now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    def processor_seconds(self) -> float:
        """How much processor time it has taken so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def workers(self) -> list[int]:
        """The ids of its worker processes."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(pid) for pid in children.split() if "spawn_main" in _command(pid)]

    def logged(self) -> str:
        """What it has logged so far."""
        return os.pread(self._log.fileno(), 2**20, 0).decode()

    def terminate(self) -> None:
        """Ask it to stop, as a process manager does."""
        self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        self._process.kill()

    def finish(self) -> tuple[int, str]:
        """Wait for its end; returns the exit code and what it logged."""
        self._process.communicate(timeout=_SECONDS)
        self._log.seek(0)
        return self._process.returncode, self._log.read()


def _command(pid: str) -> str:
    """The command line of a process; empty where it ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
