"""What the daily job costs: `strata run` with one new segment, with nothing new, and with a batch.

Run it: `python -m tests.benchmarks.daily`, or with folders of other checkouts, which are then
measured in turn with this one: `python -m tests.benchmarks.daily ../strata-before`. Each has a site
of its own with three batches of 100 segments of 1000 blocks and every table, made by itself; then
one segment comes at a time, twelve of them, so that a merge is among them. Each command is a fresh
process, of this Python and its packages; what Python keeps of compiled modules is there before.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.segments_kit import build_segment

ROOT = Path(__file__).parents[2]
BATCH, BATCHES, SINGLES = 100, 3, 12
BLOCKS = 1000
_PROGRAM = "from strata.cli import main; main()"
_MIB = 1024


@dataclass(frozen=True)
class Cost:
    """Processor seconds, all threads, and peak resident KiB of a process."""

    seconds: float
    peak: int


@dataclass
class Version:
    """A checkout, the site that it works on, and what its commands cost, by what they had to do."""

    code: Path
    site: Path
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """That of this process, with the code and the site of this version."""
        others = ("STRATA_", "PYTHONDONTWRITEBYTECODE")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(others)},
            "PYTHONPATH": str(self.code),
            "PYTHONPYCACHEPREFIX": str(self.site.parent / "compiled"),
            "DAGSTER_HOME": str(self.site / "home"),
            "STRATA_SOURCE": str(self.site / "source"),
            "STRATA_WAREHOUSE": str(self.site / "warehouse"),
            "STRATA_ARCHIVE": str(self.site / "archive"),
        }

    def strata(self, what: str, *arguments: str) -> None:
        """Run a command, and keep what it cost. Raises where it failed."""
        command = [sys.executable, "-P", "-c", _PROGRAM, *arguments]
        silent = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        messages = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        process = os.posix_spawn(
            command[0], command, self.environment(), file_actions=[silent, messages]
        )
        _, status, used = os.wait4(process, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code == 0, f"{arguments} of {self.code} left with {code}"
        cost = Cost(used.ru_utime + used.ru_stime, used.ru_maxrss)
        self.costs.setdefault(what, []).append(cost)

    def add(self, first: int, count: int) -> None:
        """Put segments into the source, counted from 0."""
        source = self.site / "source"
        source.mkdir(parents=True, exist_ok=True)
        for number in range(first, first + count):
            start = number * BLOCKS
            build_segment(source, first=start + 1, last=start + BLOCKS)


def run(folder: Path, codes: list[Path]) -> list[Version]:
    """Measure all versions in turn, after each has compiled what it imports."""
    for at, code in enumerate(codes):
        first = Version(code, folder / f"first-{at}")
        first.add(0, 1)
        for arguments in (("run",), ("run",), ("status",), ("--help",)):
            first.strata("", *arguments)
    versions = [Version(code, folder / str(at)) for at, code in enumerate(codes)]

    def each(work: Callable[[Version], object]) -> None:
        for version in versions:
            work(version)

    each(lambda version: version.strata("`strata --help`", "--help"))
    for batch in range(BATCHES):
        each(lambda version, batch=batch: version.add(batch * BATCH, BATCH))  # type: ignore[misc]
        each(lambda version: version.strata(f"a batch of {BATCH}", "run"))
    for single in range(SINGLES):
        number = BATCHES * BATCH + single
        each(lambda version, number=number: version.add(number, 1))  # type: ignore[misc]
        each(lambda version: version.strata("one new segment", "run"))
        each(lambda version: version.strata("nothing new", "run"))
        each(lambda version: version.strata("`strata status`", "status"))
        each(lambda version: version.strata("`strata --help`", "--help"))
    return versions


def table(versions: list[Version]) -> str:
    """The medians as a table, a column of seconds and one of MiB for each version."""
    names = [f"{version.code.name}, s | MiB" for version in versions]
    lines = [f"| what | {' | '.join(names)} |", "|---" * (1 + 2 * len(versions)) + "|"]
    for what in versions[0].costs:
        cells: list[str] = []
        for version in versions:
            costs = version.costs[what]
            cells.append(f"{statistics.median(cost.seconds for cost in costs):.2f}")
            cells.append(f"{max(cost.peak for cost in costs) // _MIB}")
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the measurements as a table."""
    codes = [*(Path(other).resolve() for other in sys.argv[1:]), ROOT]
    with tempfile.TemporaryDirectory(prefix="strata-daily-") as folder:
        print(table(run(Path(folder), codes)))


if __name__ == "__main__":
    main()
