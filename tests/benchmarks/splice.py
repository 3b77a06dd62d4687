"""How long a range export takes beside a plain copy, and beside compressing it again.

Run it: `python -m tests.benchmarks.splice`. About 1 GB of order-like CSV lies deflated in parts in
a temporary folder. Times are medians; no file is flushed to the disk, as `cat` flushes none.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from exporters.exports.splice import CsvParts, layout_zip
from exporters.zip_names import csv_name, zip_name
from exporters.zips.part_zip import write_part_zip
from exporters.zips.parts import PartColumns, read_parts
from exporters.zips.runs import LEVELS, deflate
from exporters.zips.sources import LocalSource
from transforms.block_range import BlockRange

HEADER = (
    b"id,market_id,party_id,side,price,size,remaining,status,created_at,version,tx_hash,vega_time\n"
)
REPEATS = 7
CSV_BYTES = 1_000_000_000
SAMPLE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: what, seconds for the whole range, CSV bytes, deflated bytes, a remark."""

    what: str
    seconds: float
    csv_bytes: int
    deflated: int
    remark: str = ""

    @property
    def rate(self) -> float:
        """MB of CSV a second."""
        return self.csv_bytes / 1e6 / self.seconds


def order_rows(seed: int, size: int) -> Iterator[bytes]:
    """At least `size` bytes of rows like the network's orders, in pieces of about 170 kB."""
    source = random.Random(seed)
    parties = [source.randbytes(32).hex() for _ in range(200)]
    markets = [source.randbytes(32).hex() for _ in range(8)]
    made = 0
    while made < size:
        block = (
            f"2023-05-01 10:{made // 60_000_000 % 60:02d}:{made // 1_000_000 % 60:02d}.217614+00"
        )
        tail = f"{block},1,\\x{source.randbytes(32).hex()},{block}\n"
        piece = "".join(
            f"\\x{source.randbytes(32).hex()},\\x{source.choice(markets)},"
            f"\\x{source.choice(parties)},{'SIDE_BUY' if row % 2 else 'SIDE_SELL'},"
            f"{27_000_00000 + source.randrange(10_000_000)},{source.randrange(5000)},"
            f"{source.randrange(5000)},STATUS_ACTIVE,{tail}"
            for row in range(400)
        ).encode()
        made += len(piece)
        yield piece


def write_parts(folder: Path, count: int, csv_bytes: int) -> list[Path]:
    """Write `count` parts, about `csv_bytes` together; four texts take turns, each its own file."""
    texts = [list(order_rows(seed, csv_bytes // count)) for seed in range(min(4, count))]
    paths = []
    for number in range(count):
        blocks = BlockRange(number * 1000 + 1, number * 1000 + 1000)
        body = texts[number % len(texts)]
        rows = sum(piece.count(b"\n") for piece in body)
        path = folder / zip_name("bench", "orders", blocks)
        name = csv_name("bench", "orders", 1, blocks)
        write_part_zip(path, name, HEADER, body, rows)
        paths.append(path)
    return paths


def splice(paths: list[Path], out: Path) -> tuple[int, int]:
    """Export the whole range: read the directories, lay out, write. Returns CSV and ZIP bytes."""
    parts = [part for path in paths for part in read_parts(LocalSource.open(path))]
    blocks = BlockRange(1, len(paths) * 1000)
    span = CsvParts(csv_name("bench", "orders", 1, blocks), 1, blocks, PartColumns.of(parts))
    layout = layout_zip(zip_name("bench", "orders", blocks), [span])
    layout.write(out, durable=False)
    return layout.members[0].csv_bytes, layout.size


def cat(paths: list[Path], out: Path) -> None:
    """`cat parts > out`."""
    with out.open("wb") as file:
        subprocess.run(["cat", *paths], stdout=file, check=True)


def median_seconds(work: Callable[[Path], object], out: Path) -> float:
    """The median of `REPEATS` times that `work` takes to make `out`, after one not counted."""
    times = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        work(out)
        times.append(time.perf_counter() - started)
        out.unlink()
    return statistics.median(times[1:])


def compression_rows(csv_bytes: int) -> Iterator[Row]:
    """What compressing the same CSV takes, extrapolated from a sample."""
    sample = b"".join(order_rows(0, SAMPLE_BYTES))
    scale = csv_bytes / len(sample)
    remark = f"extrapolated from {len(sample) / 1e6:.0f} MB"
    for level in LEVELS:
        pieces: list[bytes] = []
        started = time.perf_counter()
        run = deflate([sample], pieces.append, level)
        seconds = (time.perf_counter() - started) * scale
        yield Row(f"isal level {level}", seconds, csv_bytes, round(run.deflated * scale), remark)
    started = time.perf_counter()
    deflated = len(zlib.compress(sample, 6))
    seconds = (time.perf_counter() - started) * scale
    yield Row("zlib level 6", seconds, csv_bytes, round(deflated * scale), remark)


def run(csv_bytes: int = CSV_BYTES) -> list[Row]:
    """Measure; `csv_bytes` is the length of the CSV to export."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="splice-benchmark-") as folder:
        out = Path(folder) / "out"
        for count in (24, 1000):
            parts = Path(folder) / str(count)
            paths = write_parts(parts, count, csv_bytes)
            size, deflated = splice(paths, out)
            copied = median_seconds(lambda to, paths=paths: cat(paths, to), out)  # type: ignore[misc]
            spliced = median_seconds(lambda to, paths=paths: splice(paths, to), out)  # type: ignore[misc]
            rows.append(Row(f"cat {count} parts", copied, size, deflated))
            remark = f"{copied / spliced:.2f} of the speed of cat"
            rows.append(Row(f"splice {count} parts", spliced, size, deflated, remark))
    return [*rows, *compression_rows(csv_bytes)]


def main() -> None:
    """Print the measurements as a table."""
    for row in run(*map(int, sys.argv[1:2])):
        print(
            f"{row.what:<18} {row.seconds:8.3f} s {row.rate:9.0f} MB/s of CSV   "
            f"deflated {row.deflated / row.csv_bytes:.3f}   {row.remark}"
        )


if __name__ == "__main__":
    main()
