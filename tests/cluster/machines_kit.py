"""Folders that stand for machines, set up by the very commands of `docs/operations.md`.

What lies below /etc, /opt, /run and /var on a machine lies below its folder; programs that would
change this machine (`systemctl`, `useradd`, `apt-get`) only note that they were called; services
are started from their units by `services_kit`.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.services_kit import Service, service
from tests.ports import free_ports
from tests.waiting import patience

ROOT = Path(__file__).resolve().parents[2]
_OPERATIONS = ROOT / "docs" / "operations.md"
_PLACES = re.compile(r"(?<![\w./-])(?=/(?:etc|opt|run|var)/)")
_NOTED = ("systemctl", "useradd", "apt-get")
_NOTE = '#!/bin/sh\nprintf "%s %s\\n" "${0##*/}" "$*" >> "$STRATA_TEST_NOTES"\n'
# Everything here has one user; what is to be run as another one is run all the same.
_SUDO = (
    '#!/bin/sh\nwhile :; do case "$1" in -u) shift 2;; -*) shift;; *) break;; esac; done\nexec "$@"'
)


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of the manual, and the machines that they are for."""

    commands: str
    machines: tuple[str, ...]


def blocks(heading: str) -> list[Block]:
    """The commands below a heading of the manual, in their order."""
    section = re.split(r"^## ", _OPERATIONS.read_text(), flags=re.M)
    (text,) = [part for part in section if part.startswith(heading + "\n")]
    found = re.findall(r"^ *```sh *(.*)\n((?:.*\n)*?) *```$", text, re.M)
    return [Block(commands, tuple(names.split())) for names, commands in found]


@dataclass(slots=True)
class Machine:
    """A machine, with the services that were started on it; `commands` are more of its programs."""

    folder: Path
    commands: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    noted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Lay out what a machine has before anything is set up: the checkout, and programs."""
        opt = self.place("/opt/strata")
        opt.mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "tests", "docs", ".venv"):
            (opt / name).symlink_to(ROOT / name)
        for path in ROOT.glob("constraints*.txt"):
            (opt / path.name).symlink_to(path)
        for path in [
            *(ROOT / "dagster_home").glob("*.*"),
            *(ROOT / "dagster_home").glob("three-machines/*.*"),
            *(ROOT / "dagster_home").glob("systemd/**/*.*"),
        ]:
            if path.is_file():
                copy = opt / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(self.translate(path.read_text()))
        programs = self.folder / "programs"
        programs.mkdir()
        for name, text in (("sudo", _SUDO), *((name, _NOTE) for name in _NOTED)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.place("/etc/systemd/system").mkdir(parents=True)

    def place(self, path: str) -> Path:
        """Where what has this path on a machine lies here."""
        return self.folder / path.lstrip("/")

    def translate(self, text: str) -> str:
        """The same text with the places of this machine."""
        return _PLACES.sub(str(self.folder), text)

    def edit(self, path: str, changes: Mapping[str, str]) -> None:
        """Replace texts of a file, which must be there: what a user does with an editor."""
        file = self.place(path)
        text = file.read_text()
        for old, new in changes.items():
            assert old in text, f"{file} has no {old}"
            text = text.replace(old, new)
        file.write_text(text)

    def configure(self, **variables: str) -> None:
        """Add variables to the environment of the services; the last one of a name counts."""
        with self.place("/etc/strata/strata.env").open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in variables.items())

    def run(self, commands: str) -> list[str]:
        """Run commands of the manual, and start what they ask systemd for.

        Returns the calls of programs that were only noted.
        """
        notes = self.folder / "notes"
        notes.write_text("")
        path = [self.folder / "programs", *([self.commands] if self.commands else ())]
        environment = _plain_environment()
        environment |= {"PATH": ":".join([*map(str, path), os.environ["PATH"]])}
        environment |= {"STRATA_TEST_NOTES": str(notes), **self.variables}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.translate(commands)],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        calls = notes.read_text().splitlines()
        self.noted += calls
        for call in calls:
            if call.startswith("systemctl enable --now "):
                for name in call.split()[3:]:
                    self.start(name)
        return calls

    def start(self, name: str) -> None:
        """Start a service that is not running, as systemd does, after those that it needs."""
        unit = self.place(f"/etc/systemd/system/{name}.service")
        if name not in self.services:
            log = self.folder / "log"
            self.services[name] = service(unit, log, self.place("/run"))
        settings = self.services[name].unit
        for needed in (*settings.get("Requires", ()), *settings.get("Wants", ())):
            stem, _, kind = needed.partition(".")
            if kind == "service" and not (stem in self.services and self.services[stem].is_alive):
                self.start(stem)
        self.services[name].start()

    def stop(self, name: str) -> None:
        """Stop a service, and then those that are part of it, as systemd does."""
        self.services[name].stop()
        for part in self.services.values():
            if f"{name}.service" in part.unit.get("PartOf", ()):
                part.stop()

    def strata(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the environment of the services, whatever becomes of it."""
        environment = next(iter(self.services.values())).environment
        return subprocess.run(
            [self.place("/opt/strata/.venv/bin/strata"), *arguments],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def serve(self, commands: str) -> None:
        """Run the commands that start the server; returns when it answers."""
        self.run(commands)
        server = self.services["strata-serve"]
        wait_for(lambda: "Listening" in server.logged(), self.logged)

    def logged(self) -> str:
        """What all its services have logged."""
        return "\n".join(one.logged() for one in self.services.values())


def _plain_environment() -> dict[str, str]:
    """What a user has anyway, without what `make` or this process have set."""
    return {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}


@contextmanager
def machines(folder: Path, *names: str) -> Iterator[list[Machine]]:
    """Machines below a folder; whatever they still run at the end is killed."""
    # Made again from one of these folders, the programs would belong to that folder.
    if subprocess.run(["make", "-q", "cluster"], cwd=ROOT, env=_plain_environment()).returncode:
        pytest.fail("the installed programs are not those of this checkout: run `make cluster`")
    made = [Machine(folder / name) for name in names]
    try:
        yield made
    finally:
        for machine in made:
            for one in machine.services.values():
                one.kill()


def choose_ports(machine: Machine) -> dict[str, int]:
    """Give the web interface and the server ports that nobody listens at; returns them."""
    ports = dict(zip(("web", "http", "grpc"), free_ports(3), strict=True))
    unit = "/etc/systemd/system/strata-webserver.service"
    machine.edit(unit, {"-p 3000": f"-p {ports['web']}"})
    machine.configure(STRATA_API_PORT=str(ports["http"]), STRATA_API_GRPC_PORT=str(ports["grpc"]))
    return ports


def wait_for(condition: Callable[[], object], log: Callable[[], str], seconds: float = 300) -> None:
    """Return when something is so; fail with the log where it never is.

    `seconds` are those of a quiet machine.
    """
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + patience(seconds), log()[-6000:]
        time.sleep(0.5)
