"""A shell gives what it starts with `&` an ignored SIGINT: SIGTERM ends it all the same."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join

import pytest

from tests.cluster.services_kit import session_processes
from tests.pipelines.command_kit import call
from tests.pipelines.kit import make_segment, site_settings
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
STRATA = Path(sys.executable).parent / "strata"
TERMINATED = (143, "strata: terminated: run it again to go on\n")
_PIPE_BYTES, _LINE_BYTES = 4096, 50  # "Loading 2 segments" is one, a finished run another
_SECONDS = 240.0  # of a machine with other work

pytestmark = pytest.mark.skipif(not Path("/proc/self/wchan").exists(), reason="needs Linux's /proc")


@dataclass(slots=True)
class Background:
    """A command in the background of a shell; `code` is what the shell says of its end."""

    arguments: list[str]
    environment: dict[str, str]
    folder: Path
    stderr: int = -1
    shell: subprocess.Popen[bytes] = field(init=False)
    pid: int = field(init=False)

    def __enter__(self) -> Background:
        self.folder.mkdir(exist_ok=True)
        script = f"{join(self.arguments)} >log & echo $! >pid; wait $!; exit $?"
        with (self.folder / "errors").open("wb") as errors:
            self.shell = subprocess.Popen(
                ["sh", "-c", f"cd {join([str(self.folder)])}; ({script})"],
                env={**os.environ, **self.environment},
                stderr=errors if self.stderr < 0 else self.stderr,
                start_new_session=True,
            )
        pid = self.folder / "pid"
        self.wait(lambda: pid.exists() and pid.read_text().endswith("\n"))
        self.pid = int(pid.read_text())
        return self

    def __exit__(self, *_: object) -> None:
        for pid in session_processes(self.shell.pid):
            os.kill(pid, signal.SIGKILL)
        self.shell.wait()

    def wait(self, condition: Callable[[], object]) -> None:
        """Return when something is so; fail where it never is, or everything has ended before."""
        deadline = time.monotonic() + _SECONDS
        while not condition():
            assert self.shell.poll() is None, self.errors()
            assert time.monotonic() < deadline, self.errors()
            time.sleep(0.02)

    def end(self) -> int:
        """Send SIGTERM and wait; returns the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.shell.wait(_SECONDS)

    def wait_for_all(self) -> None:
        """Return when no process that it started is left; fail where one lives on."""
        deadline = time.monotonic() + _SECONDS
        while left := [*session_processes(self.shell.pid)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.02)

    def log(self) -> str:
        """What it has said on stdout; the shell opens the file after it has told the number."""
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    def errors(self) -> str:
        """What it has said on stderr."""
        return (self.folder / "errors").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A source of two segments, each a batch of its own."""
    settings = site_settings(tmp_path / "site")
    for number in range(2):
        make_segment(settings, number)
    return tmp_path / "site"


def places(place: Path) -> dict[str, str]:
    return {
        "STRATA_SOURCE": str(place / "source"),
        "STRATA_WAREHOUSE": str(place / "warehouse"),
        "STRATA_ARCHIVE": str(place / "archive"),
        "STRATA_BATCH": "1",
        "STRATA_LAKE": "0",
        "DAGSTER_HOME": str(place / "home"),
    }


def run_statuses(place: Path) -> list[str]:
    """The statuses of Dagster's runs, in their order; none before there is a database."""
    database = place / "home" / "history" / "runs.db"
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", timeout=30, uri=True)) as con:
            return [status for (status,) in con.execute("select status from runs order by id")]
    except sqlite3.OperationalError:
        return []


def assert_the_next_run_completes(place: Path) -> None:
    for command in ("run", "verify"):
        answer = call(places(place), command)
        assert answer.returncode == 0, answer.stderr
    assert "STARTED" not in run_statuses(place)


def test_a_run_of_dagster_is_ended_by_sigterm_and_not_by_sigint(
    place: Path, tmp_path: Path
) -> None:
    with Background([str(STRATA), "run"], places(place), tmp_path / "shell") as command:
        command.wait(lambda: run_statuses(place) == ["STARTED"])
        os.kill(command.pid, signal.SIGINT)
        command.wait(lambda: run_statuses(place) == ["SUCCESS", "STARTED"])

        assert command.end() == TERMINATED[0]
        assert command.errors().endswith(TERMINATED[1])
    assert run_statuses(place) == ["SUCCESS", "FAILURE"]
    assert_the_next_run_completes(place)


@pytest.fixture
def full_pipe() -> Iterator[tuple[int, int]]:
    """The ends of a pipe that takes one line more: whoever writes another one waits."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    os.write(writing, b"\n" * (_PIPE_BYTES - _LINE_BYTES))
    yield reading, writing
    os.close(reading)


def test_sigterm_between_two_runs_ends_it(
    place: Path, tmp_path: Path, full_pipe: tuple[int, int]
) -> None:
    reading, writing = full_pipe
    arguments, shell = [str(STRATA), "run"], tmp_path / "shell"
    with Background(arguments, places(place), shell, stderr=writing) as command:
        os.close(writing)
        # It says what it loads, then after each run that it is done, and waits as nobody reads.
        command.wait(lambda: "pipe_write" in Path(f"/proc/{command.pid}/wchan").read_text())
        assert run_statuses(place) == ["SUCCESS"]

        os.kill(command.pid, signal.SIGTERM)
        with open(reading, closefd=False) as errors:
            told = errors.read().lstrip("\n")
        assert command.shell.wait(_SECONDS) == TERMINATED[0]
        assert told.endswith(TERMINATED[1])
    assert run_statuses(place) == ["SUCCESS"]
    assert_the_next_run_completes(place)


def test_sigterm_ends_a_server(place: Path, tmp_path: Path) -> None:
    ports = ["--port", "0", "--grpc-port", "0"]
    arguments = [str(STRATA), "serve", *ports, "--workers", "2"]
    with Background(arguments, places(place), tmp_path / "shell") as command:
        command.wait(lambda: "for gRPC" in command.log())

        assert command.end() == 0
        command.wait_for_all()


def test_sigterm_ends_the_web_interface_and_all_that_it_started(
    place: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    shutil.rmtree(place / "source")  # so that there is nothing to run
    (place / "source").mkdir()
    (place / "home").mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", place / "home")
    serving = f"Serving dagster-webserver on http://127.0.0.1:{port}"
    # What is installed is as it should be: a test installs nothing.
    arguments = ["make", "-C", str(ROOT), "-o", ".venv/.installed", "ui"]
    variables = {**places(place), "DAGSTER_CLI_DEV_PORT": str(port)}
    with Background(arguments, variables, tmp_path / "shell") as command:
        command.wait(lambda: serving in command.log())

        command.end()
        command.wait_for_all()
    assert "Dagster services shut down." in command.log()
