"""wrk as the client of the API's benchmark: written in C, it leaves the processors to the server.

It asks over connections that stay open, on each again as soon as it is answered, in one thread.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MISSING = (
    "wrk, which asks the server, is not on the PATH: install it (apt-get install wrk, "
    "brew install wrk, or https://github.com/wg/wrk) and run this again"
)
_MORE_SECONDS = 15
_SCRIPT = """
local requests, place = {}, 0
init = function()
  for path in io.lines("@paths@") do requests[#requests + 1] = wrk.format("GET", path) end
end
request = function()
  place = place % #requests + 1
  return requests[place]
end
done = function(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout + errors.status
  local told = '{"count": %d, "failed": %d, "wall": %.6f, "size": %d, "p50": %.3f, "p99": %.3f}'
  print(string.format(told, summary.requests, failed, summary.duration / 1e6, summary.bytes,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a run showed: answers, failures among them, seconds, bytes; p50 and p99 in ms."""

    count: int
    failed: int
    wall: float
    size: int
    p50: float
    p99: float

    @property
    def shown(self) -> str:
        """Answers a second, or how many failed, for a table."""
        return f"{self.failed} of {self.count} failed" if self.failed else f"{self.rate:,.0f}"

    @property
    def latency(self) -> str:
        """p50 and p99, or how many failed, for a table."""
        return self.shown if self.failed else f"{self.p50:.2f} / {self.p99:.1f}"

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.count / self.wall


def require_wrk() -> None:
    """Exit with 1 and a sentence where wrk is not installed."""
    if shutil.which("wrk") is None:
        sys.exit(_MISSING)


def ask(url: str, paths: Sequence[str], connections: int, seconds: int) -> Answers:
    """Ask for the paths in turn, for so long, over so many connections.

    Where nothing is answered in that time it takes longer. `failed` counts the answers that lack,
    or have another status than 2xx or 3xx.
    """
    with tempfile.TemporaryDirectory(prefix="strata-wrk-") as name:
        listed, script = Path(name) / "paths", Path(name) / "script.lua"
        listed.write_text("".join(f"{path}\n" for path in paths))
        script.write_text(_SCRIPT.replace("@paths@", str(listed)))
        options = [
            "-t1",
            f"-c{connections}",
            f"-d{seconds}s",
            "--timeout",
            "60s",
            "-s",
            str(script),
        ]
        told = subprocess.run(["wrk", *options, url], capture_output=True, text=True, check=True)
    answers = Answers(**json.loads(told.stdout.splitlines()[-1]))
    return answers if answers.count else ask(url, paths, connections, seconds + _MORE_SECONDS)
