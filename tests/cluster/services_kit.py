"""Runs systemd's units without systemd: the commands, environment and signals that they say.

It knows what the units of this project use. What is started gets nothing of this process's own
environment, as under systemd.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shlex import split

from tests.waiting import patience

_SECONDS = 60.0


@dataclass(slots=True)
class Service:
    """A unit that was started: `main` is its first process, in a session of its own."""

    unit: dict[str, list[str]]
    log: Path
    environment: dict[str, str]
    main: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start it; its log goes on where it was started before."""
        with self.log.open("ab") as log:
            self.main = subprocess.Popen(
                _arguments(self.unit["ExecStart"][0]),
                env=self.environment,
                cwd=self.unit["WorkingDirectory"][-1],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for command in self.unit.get("ExecStartPost", ()):
            subprocess.run(_arguments(command), check=True, timeout=patience(_SECONDS))

    def stop(self) -> float:
        """Stop it as systemd does; returns the seconds that it took. Fails where it is killed."""
        began = time.monotonic()
        for command in self.unit.get("ExecStop", ()):
            subprocess.run(_arguments(command), env=self.environment, check=True)
        number = signal.Signals[self.unit["KillSignal"][-1]]
        mixed = self.unit["KillMode"][-1] == "mixed"
        for pid in [self.main.pid] if mixed else list(self.processes()):
            _send(pid, number)
        self.main.wait(patience(_SECONDS))
        while list(self.processes()):
            assert time.monotonic() < began + patience(_SECONDS), self.logged()[-2000:]
            time.sleep(0.05)
        return time.monotonic() - began

    def kill(self) -> None:
        """End all its processes at once, as a power cut does."""
        while pids := list(self.processes()):
            for pid in pids:
                _send(pid, signal.SIGSTOP)  # so that none starts others meanwhile
            for pid in pids:
                _send(pid, signal.SIGKILL)
            self.main.wait()
            time.sleep(0.01)

    @property
    def is_alive(self) -> bool:
        """Whether its first process is there."""
        return self.main.poll() is None

    def processes(self) -> Iterator[int]:
        """Its processes that are alive."""
        return session_processes(self.main.pid)

    def logged(self) -> str:
        """What it has logged so far."""
        return self.log.read_text(errors="replace")


def session_processes(leader: int) -> Iterator[int]:
    """The processes that are alive of the session that one of them began."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state not in "ZX":
            yield int(path.parent.name)


def read_unit(path: Path) -> dict[str, list[str]]:
    """The settings of a service's unit and of what holds for all of its prefix, in their order."""
    prefix = path.name.partition("-")[0]
    unit = defaultdict(list)
    for part in (*sorted(path.parent.glob(f"{prefix}-.service.d/*.conf")), path):
        text = re.sub(r"\\\n\s*", "", part.read_text())
        for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
            unit[key].append(value)
    return dict(unit)


def read_environment(path: Path) -> dict[str, str]:
    """The variables of an environment file."""
    return dict(re.findall(r"^(\w+)=(.*)$", path.read_text(), re.M))


def service(unit: Path, folder: Path, runtime: Path) -> Service:
    """A service that logs into `folder`; `runtime` stands for /run."""
    settings = read_unit(unit)
    for name in settings.get("RuntimeDirectory", ()):
        (runtime / name).mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"HOME": settings["WorkingDirectory"][-1], "LANG": "C.UTF-8", "USER": "strata"}
    for line in settings.get("Environment", ()):
        name, _, value = line.partition("=")
        environment[name] = value
    for file in settings.get("EnvironmentFile", ()):
        environment |= read_environment(Path(file))
    return Service(settings, folder / f"{unit.stem}.log", environment)


def _arguments(command: str) -> list[str]:
    return [part.replace("$$", "$") for part in split(command)]


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
