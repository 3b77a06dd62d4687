"""What the lake costs beside the load of the same CSVs, its size beside the ZIPs', and scans.

Run it: `python -m tests.benchmarks.lake`. Cost and size are those of the sample's history, larger;
the scan is `sum(size)` by market and day over all of `orders` of a busy market, by engines that
people have and by Python over the ZIPs, which must agree. Daft is asked where it is installed.
Every figure comes from a process of its own.
"""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import duckdb
import polars
import pyarrow.compute as pc
from deltalake import DeltaTable

from exporters.archive.archive import Archive
from exporters.lake.lake_files import Lake
from exporters.lake.publication.history_tables import HistoryTables
from tests.benchmarks import load
from tests.benchmarks.market import write_history
from tests.benchmarks.measure import Cost, measured
from tests.benchmarks.plain_steps import plain_steps
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.warehouse_address import open_warehouse

CSV_BYTES = 300_000_000
MARKET_SEGMENTS = 100
"""Of 10,000 orders each."""
REPEATS = 3
Answer = dict[tuple[str, str], int]
"""The sizes of orders by market and day (UTC)."""


@dataclass(frozen=True, slots=True)
class Made:
    """A loaded history: where it lies, bytes of its CSVs, what its load and plain tools cost."""

    home: Path
    csv_bytes: int
    cost: Cost
    steps: Cost

    @property
    def lake(self) -> Path:
        """The folder of the lake's tables."""
        (found,) = (self.home / "archive").glob("*/lake")
        return found

    @property
    def zips(self) -> list[Path]:
        """The single-segment ZIPs."""
        return sorted((self.home / "parts").glob("*/*/*.zip"))


def publish(home: Path) -> None:
    """Put all that is loaded into a lake, as one batch."""
    warehouse = open_warehouse(home / "warehouse")
    catalog = warehouse.loaded_catalog()
    lake = Lake(Archive(FolderStore(home / "archive"), catalog.snapshot.chain_id))
    scratch = home / "scratch"
    scratch.mkdir()
    if refused := HistoryTables(lake, catalog, lambda _: True, scratch).follow():
        raise RuntimeError(f"not all was published: {refused}")


@contextmanager
def loaded(write: Callable[[Path], Sequence[Path]]) -> Iterator[Made]:
    """A loaded history of the segments that are written into a folder."""
    with tempfile.TemporaryDirectory(prefix="lake-benchmark-") as name:
        home = Path(name)
        zips = write(home / "source")
        total = sum(map(load.history_bytes, zips))
        cost = measured(load.load, zips[0].parent, home, [path.name for path in zips])
        yield Made(home, total, cost, measured(plain_steps, zips, home / "steps"))


def _sample(folder: Path) -> Sequence[Path]:
    return load.make_segments(folder, CSV_BYTES)


def _market(folder: Path) -> Sequence[Path]:
    write_history(folder, MARKET_SEGMENTS)
    return sorted(folder.glob("*.zip"))


def by_polars(made_lake: Path) -> Answer:
    """Polars, from the table's address."""
    day = polars.col("vega_time").dt.strftime("%Y-%m-%d")
    orders = polars.scan_delta(str(made_lake / "orders"))
    found = orders.group_by("market_id", day.alias("day")).agg(polars.col("size").sum()).collect()
    return {(market, day): size for market, day, size in found.iter_rows()}


def by_pyarrow(made_lake: Path) -> Answer:
    """Arrow's dataset over the files that the log names."""
    orders = DeltaTable(made_lake / "orders").to_pyarrow_dataset()
    table = orders.to_table(columns=["market_id", "vega_time", "size"])
    table = table.append_column("day", pc.strftime(table["vega_time"], "%Y-%m-%d"))
    found = table.group_by(["market_id", "day"]).aggregate([("size", "sum")]).to_pylist()
    return {(row["market_id"], row["day"]): row["size_sum"] for row in found}


_SUM = (
    "select {market}, strftime(vega_time at time zone 'UTC', '%Y-%m-%d') as day, "
    "sum(size)::bigint from {orders} group by all"
)


def by_duckdb(made_lake: Path) -> Answer:
    """DuckDB, one thread, over the files that the log names."""
    files = [str(path) for path in DeltaTable(made_lake / "orders").file_uris()]
    with duckdb.connect(config={"threads": 1}) as con:
        asked = _SUM.format(market="market_id", orders="read_parquet($files)")
        return _answer(con.execute(asked, {"files": files}))


def by_warehouse(made_lake: Path) -> Answer:
    """DuckDB, one thread, over the warehouse's view."""
    views = made_lake.parents[2] / "warehouse" / "current.duckdb"
    with duckdb.connect(str(views), read_only=True, config={"threads": 1}) as con:
        return _answer(con.execute(_SUM.format(market="market_id", orders="orders")))


def _answer(found: duckdb.DuckDBPyConnection) -> Answer:
    return {(market, day): size for market, day, size in found.fetchall()}


def by_python(made_lake: Path) -> Answer:
    """Python's own readers of ZIP and CSV over the ZIPs."""
    sizes: Counter[tuple[str, str]] = Counter()
    for path in sorted((made_lake.parents[2] / "parts").glob("*/orders/*.zip")):
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as member:
            rows = csv.reader(io.TextIOWrapper(member, "utf-8", newline=""))
            names = next(rows)
            market, moment, size = map(names.index, ("market_id", "vega_time", "size"))
            for row in rows:
                sizes[row[market].removeprefix("\\x"), row[moment][:10]] += int(row[size])
    return dict(sizes)


def by_daft(made_lake: Path) -> Answer:
    """Daft on this machine, from the table's address."""
    daft = import_module("daft")
    orders = daft.read_deltalake(str(made_lake / "orders"))
    day = daft.col("vega_time").cast(daft.DataType.date()).cast(daft.DataType.string())
    found = orders.with_column("day", day).groupby("market_id", "day").agg(daft.col("size").sum())
    rows = found.to_pydict()
    return dict(zip(zip(rows["market_id"], rows["day"], strict=True), rows["size"], strict=True))


SCANS: dict[str, Callable[[Path], Answer]] = {
    "Polars on the lake": by_polars,
    "pyarrow on the lake": by_pyarrow,
    "DuckDB read_parquet on the lake": by_duckdb,
    "Daft on the lake": by_daft,
    "DuckDB on the warehouse": by_warehouse,
    "Python reading the ZIPs": by_python,
}


def _checked(scan: Callable[[Path], Answer], made_lake: Path, wanted: Answer) -> None:
    found = scan(made_lake)
    if found != wanted:
        raise RuntimeError(f"{scan.__name__} answers {len(found)} rows, other than the ZIPs have")


def _scanned(made: Made) -> Iterator[tuple[str, Cost]]:
    wanted = by_python(made.lake)
    for what, scan in SCANS.items():
        if scan is by_daft and find_spec("daft") is None:
            continue
        costs = [measured(_checked, scan, made.lake, wanted) for _ in range(REPEATS)]
        yield what, min(costs, key=lambda cost: cost.cpu)


def _costs(what: str, made: Made) -> None:
    gigabytes = made.csv_bytes / 1e9
    cost = measured(publish, made.home)
    segments = len(made.zips) // len(HISTORY_TABLES)
    print(f"{what}: {made.csv_bytes / 1e6:.0f} MB of CSV in {segments} segments")
    costs = {"load, proof and parts": made.cost, "its steps by plain tools": made.steps}
    for name, spent in (costs | {"the lake": cost}).items():
        print(
            f"{name:<32} {spent.cpu:8.2f} s of processor, {spent.cpu / gigabytes:6.2f} a GB, "
            f"{spent.wall:7.2f} s, peak {spent.peak / 2**20:.0f} MiB",
            flush=True,
        )
    print(f"the lake's share of a load       {cost.cpu / made.cost.cpu:8.1%}")
    files = sum(path.stat().st_size for path in made.lake.glob("*/*.parquet"))
    zips = sum(path.stat().st_size for path in made.zips)
    print(f"bytes of the lake and the ZIPs   {files:,} {zips:,} {files / zips:.2f}\n")


def main() -> None:
    """Print the measurements as they come."""
    with loaded(_sample) as made:
        _costs("the sample's history", made)
    with loaded(_market) as made:
        _costs("a busy market", made)
        print("sum(size) by market and day over orders: processor s, s, peak MiB")
        for what, held in _scanned(made):
            print(
                f"{what:<32} {held.cpu:8.2f} {held.wall:8.2f} {held.peak / 2**20:8.0f}", flush=True
            )


if __name__ == "__main__":
    main()
