"""Collects into one folder after another, killed at another moment each time.

    python -m tests.pipelines.site.collect_process NODE SOCKET SOURCES KILLS

A moment is before or after any call that can change a file or is heard by the node: hundreds, of
which KILLS are taken, spread evenly. The process that collects into `SOURCES/<number>` is killed by
SIGKILL there. Prints how many moments there are.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType

from pipelines.settings import Settings
from pipelines.site.collecting import Collector
from pipelines.site.site import Site

# Not what receives: how often that is called depends on how bytes arrive.
CALLS = {
    *("open", "write", "writelines", "flush", "fsync", "close", "link", "rename", "replace"),
    *("unlink", "remove", "rmdir", "mkdir", "truncate", "flock", "connect", "sendall"),
}


def collect(settings: Settings) -> None:
    """Collect all that the source lacks."""
    collector = Collector(Site(settings))
    with collector.alone() as folder:
        for outcome in collector.collect(collector.backlog().segments, folder):
            assert not outcome.refusal, outcome


def _at_moments(call: Callable[[], object]) -> None:
    """Have something called at each moment from now on."""

    def on_event(_frame: FrameType, event: str, function: object) -> None:
        if event in ("c_call", "c_return") and getattr(function, "__name__", "") in CALLS:
            call()

    sys.setprofile(on_event)


def _counted(settings: Settings) -> int:
    moments = count()
    _at_moments(lambda: next(moments))
    collect(settings)
    sys.setprofile(None)
    return next(moments)


def _kill_at(moment: int) -> None:
    moments = count()

    def call() -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    _at_moments(call)


def main() -> None:
    """Kill one process after another."""
    node, socket, sources, kills = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]

    def settings(name: str) -> Settings:
        return Settings(source=str(sources / name), node=node, node_socket=socket)

    collect(settings("warm-up"))  # what is imported and cached at the first time is no moment
    moments = _counted(settings("counted"))
    for number in range(int(kills)):
        child = os.fork()  # nothing runs here but this
        if child == 0:
            _kill_at(moments * number // int(kills))
            collect(settings(str(number)))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"try {number} was not killed")
    print(moments)


if __name__ == "__main__":
    main()
