"""Load with proof and parts beside DuckDB's plain CSV reader, on the same text.

Run it: `python -m tests.benchmarks.load`. The limit is `create table as from read_csv(all_varchar)`
of the same CSVs, one statement per file, one thread, into memory; beside it stand the same into
Parquet files, and all that a load must do, by plain tools (`plain_steps`). Each figure comes from a
process of its own; processor seconds count, since the machine may be busy.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import duckdb

from exporters.zips.staging import PartStage
from tests.benchmarks.measure import Cost, measured
from tests.benchmarks.plain_steps import plain_steps
from tests.sample import write_sample
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.warehouse_address import open_warehouse

CSV_BYTES = 500_000_000
REPEATS = 3
MB = 1e6

Costs = tuple[Cost, Cost]


@dataclass(frozen=True)
class Row:
    """One measurement: what, MB of CSV, its cost, and the limit's processor seconds per MB."""

    what: str
    megabytes: float
    cost: Cost
    limit: float = 0.0

    def line(self) -> str:
        """The measurement as a row of the table in docs/performance.md."""
        rate = self.megabytes / self.cost.cpu
        ratio = f"{self.limit * rate:.2f}" if self.limit else "1.00"
        return (
            f"| {self.what} | {self.megabytes:.0f} | {rate:.0f} | {ratio} | "
            f"{self.megabytes / self.cost.wall:.0f} | {self.cost.peak / 2**20:.0f} |"
        )


def make_segments(folder: Path, csv_bytes: int) -> list[Path]:
    """Write a sample history with at least so many bytes of history CSV; returns its ZIPs."""
    probe = sum(map(history_bytes, write_sample(folder / "probe")))
    scale = -(-csv_bytes // probe)
    while True:
        zips = write_sample(folder / f"scale-{scale}", scale=scale)
        if sum(map(history_bytes, zips)) >= csv_bytes:
            return zips
        scale = scale * 5 // 4


def history_bytes(path: Path) -> int:
    """The size of a segment's history once inflated."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        return sum(info.file_size for info in infos if info.filename.startswith("history/"))


def plain(texts: Sequence[Path]) -> None:
    """Read CSV files into memory with DuckDB, as text, one thread."""
    with duckdb.connect(config={"threads": 1}) as con:
        for number, text in enumerate(texts):
            con.execute(f"create table t{number} as from read_csv('{text}', all_varchar = true)")


def plain_parquet(texts: Sequence[Path], folder: Path) -> None:
    """Write each CSV file as Parquet with DuckDB, as text, one thread."""
    folder.mkdir()
    with duckdb.connect(config={"threads": 1}) as con:
        for text in texts:
            rows = f"from read_csv('{text}', all_varchar = true)"
            con.execute(f"copy ({rows}) to '{folder / text.stem}.parquet' (format parquet)")


def load(source: Path, home: Path, wanted: Sequence[str]) -> None:
    """Load the named segment files with proof and parts into a fresh warehouse."""
    warehouse, origin = open_warehouse(home / "warehouse"), Source(FolderStore(source))
    pending = [file for file in warehouse.survey(origin).pending if file.info.key in wanted]
    report = warehouse.load(origin, pending, PartStage(home / "parts"))
    if report.failures or not report.loaded:
        raise RuntimeError(f"the load failed: {report.failures}")


def _extract(zips: Sequence[Path], folder: Path) -> list[Path]:
    texts = []
    for path in zips:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.startswith("history/"):
                    target = folder / f"{path.stem}-{name.removeprefix('history/')}.csv"
                    target.write_bytes(archive.read(name))
                    texts.append(target)
    return texts


def _median(costs: Sequence[Cost]) -> Cost:
    ordered = sorted(costs, key=lambda cost: cost.cpu)
    return ordered[len(ordered) // 2]


def _in_two(work: Callable[..., object], halves: Sequence[Sequence[object]]) -> Cost:
    """Run two halves in two processes at once; wall time is that of the slower one."""
    costs: list[Cost] = []
    threads = [
        threading.Thread(target=lambda half=half: costs.append(measured(work, *half)))
        for half in halves
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = max(cost.wall for cost in costs)
    # In two processes the rate that counts is bytes by wall time.
    return Cost(wall, wall, max(cost.peak for cost in costs))


def _halves(items: Sequence[Path], size: Callable[[Path], int]) -> list[Sequence[Path]]:
    """The same files, in order, in two parts of about the same size."""
    sums = [0, *accumulate(map(size, items))]
    cut = min(range(1, len(items)), key=lambda at: abs(2 * sums[at] - sums[-1]))
    return [items[:cut], items[cut:]]


def _two_processes(zips: Sequence[Path], texts: Sequence[Path], folder: Path, again: int) -> Costs:
    """What plain and the load cost in two processes."""
    parts = _halves(texts, lambda path: path.stat().st_size)
    two_plain = _in_two(plain, [[part] for part in parts])
    loads = [
        (zips[0].parent, folder / f"both-{again}-{number}", [path.name for path in half])
        for number, half in enumerate(_halves(zips, history_bytes))
    ]
    return two_plain, _in_two(load, loads)


def run(csv_bytes: int = CSV_BYTES, repeats: int = REPEATS) -> list[Row]:
    """Measure everything on one generated history."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zips = make_segments(folder, csv_bytes)
        total = sum(map(history_bytes, zips)) / MB
        texts = _extract(zips, folder)
        limit = _median([measured(plain, texts) for _ in range(repeats)])
        per_mb = limit.cpu / total
        written = [measured(plain_parquet, texts, folder / f"p{n}") for n in range(repeats)]
        steps = [measured(plain_steps, zips, folder / f"steps{n}") for n in range(repeats)]
        rows = [
            Row("plain `read_csv(all_varchar)`", total, limit),
            Row("plain `copy ... to` Parquet of the same", total, _median(written), per_mb),
            Row("the steps of a load by plain tools, as text", total, _median(steps), per_mb),
        ]
        source = zips[0].parent
        names = [path.name for path in zips]
        for count in (len(zips) // 2, len(zips)):
            megabytes = sum(map(history_bytes, zips[:count])) / MB
            costs = [
                measured(load, source, folder / f"{count}-{again}", names[:count])
                for again in range(repeats)
            ]
            rows.append(
                Row(f"load, proof and parts, {count} segments", megabytes, _median(costs), per_mb)
            )
        two = [_two_processes(zips, texts, folder, again) for again in range(repeats)]
        for row, pairs in zip((rows[0], rows[-1]), zip(*two, strict=True), strict=True):
            cost = _median(pairs)
            ratio = row.cost.wall / cost.wall
            what = f"{row.what}, in two processes: {ratio:.2f} times by the clock"
            rows.append(Row(what, total, cost, per_mb))
        return rows


def table(rows: Sequence[Row]) -> str:
    """The measurements as a Markdown table."""
    head = "| what | MB of CSV | MB/s a core | of plain | MB/s by the clock | peak MiB |"
    return "\n".join([head, "|---|---|---|---|---|---|", *(row.line() for row in rows)])


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else CSV_BYTES
    print(table(run(size)))
