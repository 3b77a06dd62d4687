"""What Dagster's daemon costs: a day in which nothing comes, and one new segment.

Run it: `python -m tests.benchmarks.daemon` (a quarter of an hour). The daemon and its code server
are started as their systemd units say, with the settings of this release, beside 300 segments in
folders. Processor time is that of both and of all processes that they started, also of those that
have ended.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.daily import BATCH, BATCHES, BLOCKS, ROOT, Version
from tests.daemon_kit import daemon

_IDLE_SECONDS, _SINGLES, _LONGEST = 300, 4, 600
_DAY = 86_400
_TICKS = os.sysconf("SC_CLK_TCK")
_STATE_FIELDS = 3
"""Where the fields after a process's name begin, counted from 1 as `proc(5)` does."""


def wait_for(site: Version, height: int) -> None:
    """Return when the daemon says that all blocks up to `height` are published."""
    lines = {f"strata_block_height {float(height)}"}
    lines |= {f'strata_waiting_segments{{step="{step}"}} 0.0' for step in ("publish", "lake")}
    deadline = time.monotonic() + _LONGEST
    path = site.site / "metrics" / "strata.prom"
    while not (path.exists() and lines <= {*path.read_text().splitlines()}):
        assert time.monotonic() < deadline, f"{lines} were not written within {_LONGEST} s"
        time.sleep(0.5)


def processes(pid: int) -> Iterator[Sequence[str]]:
    """What `proc(5)` says of a process and of those below it, from the field `state` on."""
    listed: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            listed[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended since
            continue
    tree = [pid]
    for member in tree:
        yield listed[member]
        tree += [one for one, fields in listed.items() if int(fields[1]) == member]


def seconds(pid: int) -> float:
    """Processor seconds of a process and of all that it started, with those that ended."""
    first = 14 - _STATE_FIELDS
    return sum(sum(map(int, fields[first : first + 4])) for fields in processes(pid)) / _TICKS


def resident(pid: int) -> int:
    """Resident MiB of a process and those below it; what they share counts for each."""
    pages = sum(int(fields[24 - _STATE_FIELDS]) for fields in processes(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def run(folder: Path) -> list[tuple[str, str]]:
    """Measure, and return what was measured with its figure."""
    site = Version(ROOT, folder / "site")
    for batch in range(BATCHES):
        site.add(batch * BATCH, BATCH)
        site.strata("a batch", "run")
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", site.site / "home")
    variables = {**site.environment(), "STRATA_METRICS": str(site.site / "metrics")}
    with daemon(folder, variables, folder / "log") as both:
        pids = [process.pid for process in both]

        def used() -> float:
            return sum(map(seconds, pids))

        wait_for(site, BATCHES * BATCH * BLOCKS)
        time.sleep(_IDLE_SECONDS / 5)  # what is done once after a start has ended
        before, memory = used(), sum(map(resident, pids))
        time.sleep(_IDLE_SECONDS)
        idle = (used() - before) / _IDLE_SECONDS
        costs: list[float] = []
        for single in range(_SINGLES):
            number = BATCHES * BATCH + single
            before, started = used(), time.monotonic()
            site.add(number, 1)
            wait_for(site, (number + 1) * BLOCKS)
            costs.append(used() - before - idle * (time.monotonic() - started))
    return [
        ("a day in which nothing comes, processor seconds", f"{idle * _DAY:,.0f}"),
        ("that is of one core", f"{idle:.1%}"),
        ("resident MiB of its processes", f"{memory}"),
        ("one new segment, processor seconds", f"{statistics.median(costs):.2f}"),
    ]


def main() -> None:
    """Print the measurements as a table."""
    with tempfile.TemporaryDirectory(prefix="strata-daemon-") as folder:
        print("| what | figure |\n|---|---|")
        for what, figure in run(Path(folder)):
            print(f"| {what} | {figure} |")


if __name__ == "__main__":
    main()
