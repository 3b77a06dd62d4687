"""The read API under load: requests a second and how long they take, for every list operation.

Run it: `python -m tests.benchmarks.api [segments ...]` (100 and 1,000 by default; a thousand, which
are 10 million rows of orders, take ten minutes to make, load and compact, and 7 GB of disk).
Segments are loaded and compacted as always, two workers of `strata serve` answer, and one process
asks over connections that stay open. Plain DuckDB, one connection that asks the catalog's views for
the same rows, is measured beside them. With STRATA_BENCH=<folder> what was made is kept for later.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

from exporters.settings import Locations
from exporters.zips.staging import PartStage
from tests.api.server_kit import ServerProcess
from tests.benchmarks.api_rpc import ask_rpc
from tests.benchmarks.market import (
    MARKETS,
    ORDERS,
    PARTIES,
    RESOURCES,
    SPECS,
    WITHDRAWALS,
    hex_id,
    write_history,
)
from transforms.segments.source import Source
from transforms.stores.folder import FolderStore
from transforms.warehouse.opening import open_warehouse

SIZES = (100, 1000)
CLIENTS = (1, 16)
SECONDS = 3.0
WARM_UP_SECONDS = 2.0
WORKERS = 2
_BATCH = 100
_HEAD = (
    "| segments | face | operation | page | clients | requests/s | p50 ms | p95 ms | p99 ms | kB |"
)


@dataclass(frozen=True)
class Question:
    """One kind of request: the path of the n-th, below `/api/v2`."""

    operation: str
    page: str
    path: Callable[[int], str]


def questions(segments: int) -> list[Question]:
    """Every list operation, with a small page and one of a thousand where there are so many."""
    small, provisions = "pagination.first=20", "/liquidity/provisions"

    def some(kind: str, count: int) -> Callable[[int], str]:
        return lambda n: hex_id(kind, n * 7919 % count)

    order, withdrawal = some("order", segments * ORDERS), some("withdrawal", segments * WITHDRAWALS)
    party, market = some("party", PARTIES), some("market", MARKETS)
    spec, resource = some("spec", SPECS), some("resource", RESOURCES)
    asked: list[tuple[str, str, Callable[[int], str]]] = [
        ("order versions", "all", lambda n: f"/order/versions/{order(n)}"),
        ("withdrawals of a party", "all", lambda n: f"/withdrawals?partyId={party(n)}"),
        ("withdrawals", "20", lambda _: f"/withdrawals?{small}"),
        ("withdrawals", "1,000", lambda _: "/withdrawals"),
        ("withdrawal", "1", lambda n: f"/withdrawal/{withdrawal(n)}"),
        ("oracle data", "20", lambda _: f"/oracle/data?{small}"),
        ("oracle data", "1,000", lambda _: "/oracle/data"),
        ("oracle data of a spec", "20", lambda n: f"/oracle/data?{small}&oracleSpecId={spec(n)}"),
        ("node signatures", "all", lambda n: f"/node/signatures?id={resource(n)}"),
        ("provisions of a market", "20", lambda n: f"{provisions}?{small}&marketId={market(n)}"),
        ("provisions of a market", "1,000", lambda n: f"{provisions}?marketId={market(n)}"),
        ("spam statistics", "1", lambda n: f"/statistics/spam/{party(n)}"),
        ("segments", "all", lambda _: "/networkhistory/segments"),
        ("vega time", "1", lambda _: "/vega/time"),
    ]  # fmt: skip
    return [Question(name, page, path) for name, page, path in asked]


def make_warehouse(folder: Path, segments: int) -> Locations:
    """Write, load and compact a history, or find the one that was made before."""
    locations = Locations(
        source="", warehouse=str(folder / "warehouse"), archive=str(folder / "archive")
    )
    done = folder / "done"
    if not done.exists():
        warehouse = open_warehouse(locations.warehouse)
        write_history(folder / "source", segments)
        source = Source(FolderStore(folder / "source"))
        pending = warehouse.survey(source).pending
        stage = PartStage(warehouse.cache / "parts", durable=False)
        for start in range(0, len(pending), _BATCH):
            report = warehouse.load(source, pending[start : start + _BATCH], stage)
            assert not report.failures, report.failures
        warehouse.compact()
        done.touch()
    return locations


@dataclass(frozen=True)
class Figures:
    """What a run of one question showed: seconds of each answer, their bytes, the time it took."""

    seconds: list[float]
    size: int
    wall: float

    def line(self, segments: int, face: str, question: Question, clients: int) -> str:
        """A row of the table in docs/performance.md."""
        ordered = sorted(self.seconds)
        p50, p95, p99 = (ordered[int(len(ordered) * part)] * 1000 for part in (0.5, 0.95, 0.99))
        rate = len(ordered) / self.wall
        return (
            f"| {segments:,} | {face} | {question.operation} | {question.page} | {clients} | "
            f"{rate:,.0f} | {p50:.1f} | {p95:.1f} | {p99:.1f} | "
            f"{self.size / len(ordered) / 1000:.1f} |"
        )


async def ask(url: str, question: Question, clients: int, seconds: float) -> Figures:
    """Ask over so many connections, each at once again when it is answered."""
    address = urlsplit(url)
    numbers = iter(range(10**9))
    took: list[float] = []
    size = 0

    async def client() -> None:
        nonlocal size
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        while time.perf_counter() < end:
            path = question.path(next(numbers))
            started = time.perf_counter()
            writer.write(f"GET /api/v2{path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), (path, head)
            length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            took.append(time.perf_counter() - started)
            size += length
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(client() for _ in range(clients)))
    return Figures(took, size, time.perf_counter() - began)


def plain(locations: Locations, segments: int) -> Iterator[tuple[Question, Figures]]:
    """The same rows from plain DuckDB, one after the other."""
    asked = {
        "order versions": ("select * from orders where id = $1", "order", segments * ORDERS),
        "withdrawals of a party": (
            "select * from withdrawals where party_id = $1 order by vega_time desc limit 1000",
            "party",
            PARTIES,
        ),
        "withdrawals": (
            "select * from withdrawals where $1 > '' order by vega_time desc limit 1000",
            "party",
            PARTIES,
        ),
    }
    with duckdb.connect(f"{locations.warehouse}/current.duckdb", read_only=True) as con:
        con.execute("set threads = 1")
        for operation, (sql, kind, count) in asked.items():
            took: list[float] = []
            began = time.perf_counter()
            while time.perf_counter() < began + SECONDS:
                id_ = hex_id(kind, len(took) * 7919 % count)
                started = time.perf_counter()
                con.execute(sql, [id_]).fetchall()
                took.append(time.perf_counter() - started)
            figures = Figures(took, 0, time.perf_counter() - began)
            yield Question(operation, "all", str), figures


def in_page_cache(warehouse: Path) -> None:
    """Read the volumes once: what is measured is not the disk."""
    for path in (warehouse / "volumes").iterdir():
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def measure(folder: Path, segments: int) -> None:
    """Print the figures of every question over a history of so many segments."""
    locations = make_warehouse(folder / str(segments), segments)
    in_page_cache(Path(locations.warehouse))
    for question, figures in plain(locations, segments):
        print(figures.line(segments, "plain DuckDB", question, 1), flush=True)
    options = ("--workers", str(WORKERS))
    with ServerProcess(locations, *options, LOG_LEVEL="warning") as server:
        for question in questions(segments):
            asyncio.run(ask(server.url, question, max(CLIENTS), WARM_UP_SECONDS))
            for clients in CLIENTS:
                figures = asyncio.run(ask(server.url, question, clients, SECONDS))
                print(figures.line(segments, "REST", question, clients), flush=True)
                over_rpc = ask_rpc(server.grpc_port, question.path, clients, SECONDS)
                figures = Figures(*asyncio.run(over_rpc))
                print(figures.line(segments, "gRPC", question, clients), flush=True)


def main(sizes: tuple[int, ...] = SIZES) -> None:
    """Print the whole table."""
    print(_HEAD)
    print("|---|---|---|---|---|---|---|---|---|---|")
    kept = os.environ.get("STRATA_BENCH")
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        for segments in sizes:
            measure(Path(kept or folder), segments)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
