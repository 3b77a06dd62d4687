"""`strata` in a process of its own for each command, without the second that imports take.

A command has its own memory, environment, folder and limits, as when it is typed: one process has
imported everything, and forks for each. How `strata` starts is tested where its program is called.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock

_PROJECT = Path(__file__).parents[1]
_TURN = Lock()


def run_strata(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    open_files: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a command, whatever becomes of it; `open_files` is how many it may have, if given.

    Environment and folder are those of this process where none are given.
    """
    command = {
        "arguments": arguments,
        "environment": dict(os.environ if environment is None else environment),
        "folder": str(folder or Path.cwd()),
        "open_files": open_files,
    }
    with _TURN:
        server = _server()
        assert server.stdin
        assert server.stdout
        server.stdin.write(f"{json.dumps(command)}\n")
        server.stdin.flush()
        answer = server.stdout.readline()
    assert answer, "the process that runs commands broke: see what it printed"
    return subprocess.CompletedProcess(["strata", *arguments], *json.loads(answer))


@cache
def _server() -> subprocess.Popen[str]:
    """The process that runs commands, which ends with this one."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.command_server"],
        cwd=_PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)  # closes its input, and waits
    return server
