"""What the daily job costs: `strata run` with one new segment, with nothing new, and with a batch.

Run it: `python -m tests.benchmarks.daily`, or with folders of other checkouts, which are then
measured in turn with this one: `python -m tests.benchmarks.daily ../strata-before`. Each has a site
of its own with three batches of 100 segments of 1000 blocks and rows in every table, made by
itself; then one segment comes at a time, twelve of them, so that a merge is among them. Each
command is a fresh process, of the checkout's own `.venv` where there is one, else of this Python
and its packages; what Python keeps of compiled modules is there before.
With `--bucket` first, source, warehouse and archive lie in a bucket of a real server, and the
requests of each command are counted at a proxy before it.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from boto3.session import Session

from tests.fault_proxy import FaultProxy
from tests.segments_kit import Cell, build_segment, table_rows
from tests.weed_kit import WeedServer, weed_server
from transforms.tables.registry import known_tables

ROOT = Path(__file__).parents[2]
BATCH, BATCHES, SINGLES = 100, 3, 12
BLOCKS = 1000
ROWS = 20
"""Rows of each table but `blocks` in a segment."""
_PROGRAM = "from strata.cli import main; main()"
_MIB = 1024


@dataclass(frozen=True)
class Cost:
    """Processor seconds, all threads, peak resident KiB of a process, and requests to a bucket."""

    seconds: float
    peak: int
    requests: int = 0


class Bucket:
    """A bucket of a running server, which commands reach by way of a proxy that counts."""

    def __init__(self, server: WeedServer) -> None:
        self.name = server.bucket()
        self.proxy = FaultProxy(server.url)
        self._client = Session().client("s3", endpoint_url=server.url)

    def put(self, path: Path, key: str) -> None:
        """Move a file into the bucket, past the proxy."""
        self._client.upload_file(str(path), self.name, key)
        path.unlink()

    def close(self) -> None:
        """Let nobody reach it any more."""
        self._client.close()
        self.proxy.stop()


@dataclass
class Version:
    """A checkout, the site that it works on, and what its commands cost, by what they had to do.

    `site` is a folder; with a bucket, only Dagster's memory lies there.
    """

    code: Path
    site: Path
    bucket: Bucket | None = None
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """That of this process, with the code and the site of this version."""
        others = ("STRATA_", "PYTHONDONTWRITEBYTECODE")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(others)},
            "PYTHONPATH": str(self.code),
            "PYTHONPYCACHEPREFIX": str(self.site.parent / "compiled"),
            "DAGSTER_HOME": str(self.site / "home"),
            "STRATA_SOURCE": self._place("source"),
            "STRATA_WAREHOUSE": self._place("warehouse"),
            "STRATA_ARCHIVE": self._place("archive"),
            **({"AWS_ENDPOINT_URL": self.bucket.proxy.url} if self.bucket else {}),
        }

    def _place(self, name: str) -> str:
        if self.bucket is None:
            return str(self.site / name)
        return f"s3://{self.bucket.name}/{self.site.name}/{name}"

    def strata(self, what: str, *arguments: str) -> None:
        """Run a command, and keep what it cost. Raises where it failed."""
        own = self.code / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        command = [python, "-P", "-c", _PROGRAM, *arguments]
        silent = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        messages = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        sent = self.bucket.proxy.requests if self.bucket else []
        sent.clear()
        actions = [silent, messages]
        process = os.posix_spawn(python, command, self.environment(), file_actions=actions)
        _, status, used = os.wait4(process, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code == 0, f"{arguments} of {self.code} left with {code}"
        cost = Cost(used.ru_utime + used.ru_stime, used.ru_maxrss, len(sent))
        self.costs.setdefault(what, []).append(cost)

    def add(self, first: int, count: int) -> None:
        """Put segments into the source, counted from 0."""
        source = self.site / "source"
        source.mkdir(parents=True, exist_ok=True)
        for number in range(first, first + count):
            start = number * BLOCKS
            path = _segment(source, start + 1)
            if self.bucket is not None:
                self.bucket.put(path, f"{self.site.name}/source/{path.name}")


def _segment(folder: Path, first: int) -> Path:
    rows: list[dict[str, Cell]] = [{} for _ in range(ROWS)]
    tables = {
        name: table_rows(name, *rows, first=first) for name in known_tables(1) if name != "blocks"
    }
    return build_segment(folder, first=first, last=first + BLOCKS - 1, tables=tables)


def run(folder: Path, codes: list[Path], bucket: Bucket | None = None) -> list[Version]:
    """Measure all versions in turn, after each has compiled what it imports."""
    for at, code in enumerate(codes):
        first = Version(code, folder / f"first-{at}", bucket)
        first.add(0, 1)
        for arguments in (("run",), ("run",), ("status",), ("--help",)):
            first.strata("", *arguments)
    versions = [Version(code, folder / str(at), bucket) for at, code in enumerate(codes)]

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
    """The medians as a table: seconds, MiB and, with a bucket, requests of each version."""
    names = [
        f"{version.code.name}, s | MiB{' | requests' if version.bucket else ''}"
        for version in versions
    ]
    columns = 1 + len(" | ".join(names).split(" | "))
    lines = [f"| what | {' | '.join(names)} |", "|---" * columns + "|"]
    for what in versions[0].costs:
        cells: list[str] = []
        for version in versions:
            costs = version.costs[what]
            cells.append(f"{statistics.median(cost.seconds for cost in costs):.2f}")
            cells.append(f"{max(cost.peak for cost in costs) // _MIB}")
            if version.bucket:
                cells.append(f"{statistics.median(cost.requests for cost in costs):.0f}")
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the measurements as a table."""
    others = sys.argv[1:]
    has_bucket = others[:1] == ["--bucket"]
    codes = [*(Path(other).resolve() for other in others[has_bucket:]), ROOT]
    with tempfile.TemporaryDirectory(prefix="strata-daily-") as folder, ExitStack() as stack:
        bucket = None
        if has_bucket:
            server = stack.enter_context(weed_server(Path(folder) / "server"))
            bucket = stack.enter_context(closing(Bucket(server)))
        print(table(run(Path(folder), codes, bucket)))


if __name__ == "__main__":
    main()
