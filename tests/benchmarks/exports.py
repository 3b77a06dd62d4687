"""What it costs to plan and write a range of a history as large as mainnet's.

Run it: `python -m tests.benchmarks.exports`. The history (75,000 segments; 1 GB) is made first, in
a temporary folder. Processor time is that of all threads; peak memory is that of a process that
does nothing else. The limit beside writing is `cat` over the same ZIPs, in the same run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

from exporters.exports.range_export import RangeExport, RangeExporter
from exporters.locations import Locations
from tests.api.server_kit import ServerProcess
from tests.benchmarks.history import BLOCKS, TABLE, History, make_history
from tests.benchmarks.measure import measured
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.warehouse_address import open_warehouse

SEGMENTS = 75_000
RANGES = (1_000, 10_000)
START = 30_000
REPEATS = 5
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: what, processor seconds, seconds, peak memory in bytes, a remark."""

    what: str
    cpu: float
    wall: float
    peak: int
    remark: str = ""


def plan(history: History, segments: int) -> RangeExport:
    """Lay out the ZIP of so many segments from the middle of a history, every part proven."""
    first = START % history.segments * BLOCKS + 1
    exporter = RangeExporter(history.warehouse, FolderStore(history.archive))
    catalog = open_warehouse(history.warehouse).loaded_catalog()
    return exporter.export(catalog, TABLE, first, first + segments * BLOCKS - 1)


def planned(history: History, segments: int) -> Iterator[Row]:
    """The first plan of a range, which reads its ZIPs to prove them, and the next one."""
    for when in ("plan and prove", "plan again"):
        cost = measured(plan, history, segments)
        yield Row(f"{when} {segments:,}", cost.cpu, cost.wall, cost.peak)


def written(history: History, segments: int, out: Path) -> Row:
    """Writing a ZIP that is laid out, beside `cat` of its parts: the median of pairs in turn."""
    layout = plan(history, segments).layout
    zips = history.zips(START % history.segments, segments)
    pairs = [
        (_seconds(lambda: layout.write(out, durable=False)), _seconds(lambda: _cat(zips, out)))
        for _ in range(REPEATS + 1)
    ][1:]
    wall = statistics.median(ours for ours, _ in pairs)
    ratio = statistics.median(theirs / ours for ours, theirs in pairs)
    return Row(f"write {segments:,}", wall, wall, 0, f"{ratio:.2f} of the speed of cat")


def downloaded(history: History) -> Iterator[Row]:
    """The whole history through the API: how long until its first byte comes."""
    locations = Locations(source="", warehouse=str(history.warehouse), archive=str(history.archive))
    path = f"/api/v2/networkhistory/export?fromBlock=1&toBlock={history.segments * BLOCKS}&table=5"
    with ServerProcess(locations, "--no-grpc") as server, httpx2.Client(timeout=600) as client:
        for when in ("first", "again"):
            started = time.perf_counter()
            with client.stream("GET", server.url + path) as answer:
                size = int(answer.headers["content-length"])
                pieces = answer.iter_raw()
                got = len(next(pieces))
                first = time.perf_counter() - started
                got += sum(map(len, pieces))
            whole = time.perf_counter() - started
            remark = f"of {size / 1e6:.0f} MB; the whole took {whole:.1f} s"
            assert got == size
            yield Row(f"first byte of all, {when}", 0, first, 0, remark)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _cat(zips: list[Path], out: Path) -> None:
    with out.open("wb") as file:
        subprocess.run(["cat", *zips], stdout=file, check=True)


def rows(folder: Path, segments: int = SEGMENTS) -> Iterator[Row]:
    """Make a history of so many segments in a folder, and measure."""
    history = make_history(folder / "history", segments)
    for count in RANGES:
        if count <= segments:
            yield from planned(history, count)
            yield written(history, count, folder / "out.zip")
    yield from downloaded(history)


def main() -> None:
    """Print the measurements as a table while they come."""
    print(f"{'what':<28} {'processor s':>11} {'s':>8} {'peak MiB':>9}")
    with tempfile.TemporaryDirectory(prefix="export-benchmark-") as folder:
        for row in rows(Path(folder), *map(int, sys.argv[1:2])):
            print(
                f"{row.what:<28} {row.cpu:11.2f} {row.wall:8.2f} {row.peak // _MIB:9d}   "
                f"{row.remark}",
                flush=True,
            )


if __name__ == "__main__":
    main()
