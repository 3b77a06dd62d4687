"""Pods as processes of this machine, by what the manifests say: commands, environment, files.

A pod's own folder, /var/lib/strata, is a folder of a test. It gets nothing of this process's
environment, and of a config map only what it mounts.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.manifests_kit import PACKAGES
from tests.cluster.services_kit import session_processes

_HOME = "/var/lib/strata"
_PROGRAMS = PACKAGES.parent / "bin"


@dataclass(slots=True)
class Pods:
    """The pods that were started below a folder, with what all have: config map and variables.

    `instead` has what an argument of a command is replaced by, as a port that is free here.
    """

    folder: Path
    files: Mapping[str, str]
    variables: Mapping[str, str]
    instead: Mapping[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, spec: Mapping[str, Any]) -> None:
        """Run its first containers to their end, and start the other one."""
        (container,) = spec["containers"]
        for first in spec.get("initContainers") or ():
            assert self._process(name, first).wait() == 0, self.logged(name)
        self.running[name] = self._process(name, container)

    def run(self, name: str, command: list[str]) -> int:
        """The exit code of a command in a running pod, as a probe asks for it."""
        command = self._translated(name, command)
        with self._log(name).open("ab") as log:
            environment = self._environment(name, {})
            done = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False)
        return done.returncode

    def logged(self, name: str) -> str:
        """What a pod has written."""
        return self._log(name).read_text()

    def kill(self) -> None:
        """End all of them, at once."""
        for process in self.running.values():
            for pid in list(session_processes(process.pid)):
                os.kill(pid, signal.SIGKILL)
            process.wait()

    def _process(self, name: str, container: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        for mount in container["volumeMounts"]:
            place = Path(*self._translated(name, [mount["mountPath"]]))
            if "subPath" in mount:
                place.write_text(self.files[mount["subPath"]])
            elif mount["mountPath"].startswith(_HOME):
                place.mkdir(parents=True, exist_ok=True)
        command = [*(container.get("command") or ()), *(container.get("args") or ())]
        own = {one["name"]: one["value"] for one in container.get("env") or () if one.get("value")}
        with self._log(name).open("ab") as log:
            return subprocess.Popen(
                self._translated(name, [self.instead.get(part, part) for part in command]),
                env=self._environment(name, own),
                cwd=self.folder / name,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _environment(self, name: str, own: Mapping[str, str]) -> dict[str, str]:
        image = {"PATH": f"{_PROGRAMS}:/usr/bin:/bin", "HOME": _HOME, "LANG": "C.UTF-8"}
        given = {**image, **self.variables, **own, "PYTHONPATH": str(PACKAGES)}
        return dict(zip(given, self._translated(name, list(given.values())), strict=True))

    def _translated(self, name: str, texts: list[str]) -> list[str]:
        return [text.replace(_HOME, str(self.folder / name)) for text in texts]

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"
