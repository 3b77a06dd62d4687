"""The read API under load: how long answers take and how many there are a second.

Run it: `python -m tests.benchmarks.api [segments ...] [--clones segments ...] [--only text]`. By
default 1,000 segments are loaded and compacted (10 million rows of orders: ten minutes, 7 GB of
disk), and 20,000 are cloned and never compacted (five minutes, 2 GB); a history as long as
mainnet's is `--clones 75000`. `--only withdrawals` asks no questions but those that begin so.

Two workers of `strata serve` answer, wrk asks on the same machine, and files are in the page cache.
Every row is the median of runs in turn, beside what one connection of plain DuckDB, of one thread,
takes for the same rows through the catalog's views, and beside the aims, where there are any.
With STRATA_BENCH=<folder> what was made is kept there, and found again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb

from exporters.locations import Locations
from exporters.zips.staging import PartStage
from tests.api.server_kit import ServerProcess
from tests.benchmarks.api_questions import Question, Size, questions
from tests.benchmarks.api_rpc import ask_rpc
from tests.benchmarks.api_transfers import transfers
from tests.benchmarks.clones import make_clones
from tests.benchmarks.market import write_history
from tests.benchmarks.wrk import Answers, ask, require_wrk
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.warehouse_address import open_warehouse

LOADED, CLONED = (1000,), (20_000,)
CLIENTS = 16
SECONDS = 2
ROUNDS = 3
WORKERS = 2
_BATCH = 100
_OVER_RPC = {("order versions", "all"), ("withdrawals", "20"), ("withdrawals", "1,000")}
_COLUMNS = (
    "operation | rows | p50 / p99 ms, 1 client | aim | plain DuckDB | "
    f"answers/s, {CLIENTS} clients | aim | p50 / p99 ms | kB"
)


@dataclass(frozen=True, slots=True)
class History:
    """A history that is served: its folder, its segments, and how it was made."""

    folder: Path
    segments: int
    is_cloned: bool

    @property
    def size(self) -> Size:
        """How much it has of what is asked for."""
        return (Size.cloned if self.is_cloned else Size.loaded)(self.segments)

    @property
    def title(self) -> str:
        """What the table is about."""
        how = "cloned, not compacted" if self.is_cloned else "loaded and compacted"
        return f"{self.segments:,} segments, {how}"

    def made(self) -> Locations:
        """Where it lies, once it is made; it may have been before."""
        done = self.folder / "done"
        if not done.exists():
            (make_clones if self.is_cloned else make_history)(self.folder, self.segments)
            done.touch()
        warehouse, archive = str(self.folder / "warehouse"), str(self.folder / "archive")
        return Locations(source="", warehouse=warehouse, archive=archive)


def make_history(folder: Path, segments: int) -> None:
    """Write a history, unless that was done before, then load and compact it as always."""
    written = folder / "written"
    if not written.exists():
        write_history(folder / "source", segments)
        written.touch()
    warehouse = open_warehouse(folder / "warehouse")
    source = Source(FolderStore(folder / "source"))
    pending = warehouse.survey(source).pending
    stage = PartStage(warehouse.cache / "parts")
    for start in range(0, len(pending), _BATCH):
        report = warehouse.load(source, pending[start : start + _BATCH], stage)
        assert not report.failures, report.failures
    warehouse.compact()


def plain(con: duckdb.DuckDBPyConnection, question: Question) -> str:
    """What plain DuckDB takes for the same rows, at least three times: p50 in ms."""
    took: list[float] = []
    began = time.perf_counter()
    while question.sql and (time.perf_counter() < began + SECONDS or len(took) < ROUNDS):
        id_ = question.ids[len(took) % len(question.ids)]
        started = time.perf_counter()
        con.execute(question.sql, [id_] if "$1" in question.sql else []).fetchall()
        took.append(time.perf_counter() - started)
    return f"{statistics.median(took) * 1000:.1f}" if took else ""


def answered(asking: Callable[[int, int], Answers]) -> tuple[Answers, Answers]:
    """The median runs of one client and of many, in turn, after one that warms up.

    Before the one asks, what the many left unread when they went away is done.
    """
    asking(CLIENTS, 1)
    rounds = []
    for _ in range(ROUNDS):
        asking(1, 1)
        rounds.append((asking(1, SECONDS), asking(CLIENTS, SECONDS)))
    alone, together = zip(*rounds, strict=True)
    middle = ROUNDS // 2
    return (
        sorted(alone, key=lambda answers: answers.p50)[middle],
        sorted(together, key=lambda answers: answers.rate)[middle],
    )


def row(
    question: Question, runs: tuple[Answers, Answers], limit: str, aims: tuple[str, str]
) -> str:
    """A row of the table in docs/performance.md."""
    alone, together = runs
    cells = [
        question.operation,
        question.page,
        alone.latency,
        aims[0],
        limit,
        together.shown,
        aims[1],
        together.latency,
        f"{alone.size / alone.count / 1000:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def measure(history: History, only: str) -> int:
    """Print the table of a history, of the questions that begin with a text.

    Returns how many requests failed.
    """
    failed = 0
    locations = history.made()
    in_page_cache(Path(str(locations.warehouse)))
    print(
        f"\n{history.title}:\n\n| {_COLUMNS} |\n{'|---' * (_COLUMNS.count('|') + 1)}|", flush=True
    )
    views = f"{locations.warehouse}/current.duckdb"
    with (
        ServerProcess(locations, "--workers", str(WORKERS), LOG_LEVEL="warning") as server,
        duckdb.connect(views, read_only=True, config={"threads": 1}) as con,
    ):
        asked = (one for one in questions(history.size) if one.operation.startswith(only))
        for question in asked:
            limit, aims = plain(con, question), question.aims(compacted=not history.is_cloned)
            paths = question.paths
            runs = answered(partial(ask, server.url, paths))
            failed += sum(answers.failed for answers in runs)
            print(row(question, runs, limit, aims), flush=True)
            if (question.operation, question.page) in _OVER_RPC:
                runs = answered(partial(ask_rpc, server.grpc_port, paths))
                over_rpc = replace(question, operation=f"{question.operation}, gRPC")
                print(row(over_rpc, runs, "", ("", "")), flush=True)
        if not only:
            print()
            for line in transfers(server.url, history.segments, exports=not history.is_cloned):
                print(line, flush=True)
    return failed


def in_page_cache(warehouse: Path) -> None:
    """Read the files once: what is measured is not the disk."""
    for path in (*warehouse.glob("data/*/*"), *warehouse.glob("index/*")):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def main(loaded: Sequence[int], cloned: Sequence[int], only: str = "") -> None:
    """Print the tables of histories of so many segments; exit with 1 where requests failed."""
    require_wrk()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as temporary:
        folder = Path(os.environ.get("STRATA_BENCH") or temporary)
        for segments in loaded:
            failed += measure(History(folder / str(segments), segments, is_cloned=False), only)
        for segments in cloned:
            failed += measure(
                History(folder / f"{segments}-cloned", segments, is_cloned=True), only
            )
    if failed:
        sys.exit(f"{failed} requests were not answered, or with another status than 2xx or 3xx")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("segments", type=int, nargs="*")
    parser.add_argument("--clones", type=int, nargs="*", default=[])
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    if chosen.segments or chosen.clones:
        main(chosen.segments, chosen.clones, chosen.only)
    else:
        main(LOADED, CLONED, chosen.only)
