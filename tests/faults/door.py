"""A process that stands before an S3 server and does what networks do, as it is told.

It prints its address. Each line that it reads is a fault (see `fault`), empty for none; it answers
with the requests that it met since the line before, how many it disturbed, and the first of those.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any

from tests.fault_proxy import FaultProxy, Request

_PROJECT = Path(__file__).parents[2]


def fault(action: str, number: int, times: int) -> dict[str, Any]:
    """From request `number` (from 1) on, `action` (of `tests.fault_proxy`) is done to `times`."""
    return {"action": action, "number": number, "times": times}


@dataclass
class _Chosen:
    """What is done to the requests since the last line."""

    fault: Mapping[str, Any] = field(default_factory=dict)
    met: int = 0
    done: int = 0
    first: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def action(self, request: Request) -> str | None:
        with self._lock:
            self.met += 1
            first = self.fault.get("number", sys.maxsize)
            if not first <= self.met < first + self.fault.get("times", 0):
                return None
            self.done += 1
            self.first = self.first or str(request)
            return str(self.fault["action"])


@dataclass(frozen=True, slots=True)
class Met:
    """The requests that came through: how many, how many were disturbed, the first of those."""

    met: int
    done: int
    first: str


class Door:
    """The process, as another one sees it: an address, and what becomes of requests to it."""

    def __init__(self, process: Popen[str]) -> None:
        self._process = process
        self.url = self._stream(process.stdout).readline().strip()

    def set(self, wanted: Mapping[str, Any] | None) -> Met:
        """Do this from now on (None: nothing); says what was met since the last time."""
        to = self._stream(self._process.stdin)
        to.write(f"{json.dumps(wanted) if wanted else ''}\n")
        to.flush()
        return Met(**json.loads(self._stream(self._process.stdout).readline()))

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


@contextmanager
def door_before(upstream: str) -> Iterator[Door]:
    """A running process before the server at `upstream`."""
    command = [sys.executable, "-m", "tests.faults.door", upstream]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=_PROJECT) as process:
        try:
            yield Door(process)
        finally:
            process.kill()


def main() -> None:
    """Arguments: the address of the server."""
    proxy, chosen = FaultProxy(sys.argv[1]), _Chosen()
    print(proxy.url, flush=True)
    for line in sys.stdin:
        before, chosen = chosen, _Chosen(json.loads(line) if line.strip() else {})
        proxy.on_request = chosen.action
        proxy.released.set()  # what was stalled so far ends
        proxy.released = threading.Event()
        answer = {"met": before.met, "done": before.done, "first": before.first}
        print(json.dumps(answer), flush=True)
    proxy.stop()


if __name__ == "__main__":
    main()
