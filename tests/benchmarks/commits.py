"""What a commit costs in a warehouse as large as mainnet's: a snapshot names all volumes, whole.

Run it: `python -m tests.benchmarks.commits`. Nothing but snapshots is made; the store is a folder.
Processor time is that of one commit; the first one of a process also reads what is newest.
"""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.history import CHAIN, VERSION, blocks_of
from transforms.block_range import BlockRange
from transforms.objects import StoredFile
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES, known_table
from transforms.warehouse.log.log import Log, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import data_key
from transforms.warehouse.manifests.shapes import Shape, Volume

CASES = ((100, 750), (2_000, 1))
"""Volumes and segments of each: a compacted history of 75,000, and one that never was."""
REPEATS = 9
LIMIT_SECONDS = 0.3
LIMIT_BYTES = 4 * 10**6


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement: what, processor seconds of the first and of a later commit, bytes written."""

    what: str
    first: float
    later: float
    bytes: int


def volumes(count: int, segments: int) -> Iterator[Volume]:
    """The volumes of a history, as a snapshot lists them: half have texts that no type holds."""
    schemas = [known.schema for table in HISTORY_TABLES if (known := known_table(table, VERSION))]
    for number in range(count):
        blocks = BlockRange(
            blocks_of(number * segments).first, blocks_of((number + 1) * segments - 1).last
        )
        shapes = {
            schema.table: Shape({column.name: column.type for column in schema.columns})
            for schema in schemas
        }
        if number % 2:
            shapes["orders"].raw.add("price")
        manifest, index = _file("manifests", blocks, "parquet"), _file("index", blocks, "sqlite")
        data = {
            table: StoredFile(data_key(table, blocks, sha256), 10**9, sha256)
            for table in shapes
            for sha256 in [hashlib.sha256(f"{table} {blocks}".encode()).hexdigest()]
        }
        yield Volume("history", manifest, blocks, segments, VERSION, shapes, data, index)


def _file(folder: str, blocks: BlockRange, suffix: str) -> StoredFile:
    sha256 = hashlib.sha256(f"{folder} {blocks}".encode()).hexdigest()
    return StoredFile(f"{folder}/{blocks.key}.{sha256}.{suffix}", 10**9, sha256)


def row(folder: Path, count: int, segments: int) -> Row:
    """Make a log that names so many volumes, and measure commits to it."""
    store = FolderStore(folder / "warehouse")
    known = [*volumes(count + REPEATS + 1, segments)]
    log = Log(store)
    log.begin()
    log.commit(lambda newest: _with(newest, known[:count]))
    later = []
    for volume in known[count:-1]:
        later.append(_seconds(log, volume))
    first = _seconds(Log(store), known[-1])
    size = len(store.read(snapshot_key(log.begin().number)))
    what = f"{count:,} volumes of {segments} segments"
    return Row(what, first, statistics.median(later), size)


def _with(newest: Snapshot, volumes: list[Volume]) -> Snapshot:
    return Snapshot(chain_id=CHAIN).with_volumes([*newest.volumes, *volumes])


def _seconds(log: Log, volume: Volume) -> float:
    started = time.process_time()
    log.commit(lambda newest: newest.with_volumes([*newest.volumes, volume]))
    return time.process_time() - started


def main() -> None:
    """Print the measurements as a table."""
    print(f"{'what':<30} {'first, s':>9} {'later, s':>9} {'bytes':>10}")
    for count, segments in CASES:
        with tempfile.TemporaryDirectory(prefix="commit-benchmark-") as folder:
            found = row(Path(folder), count, segments)
        print(f"{found.what:<30} {found.first:9.3f} {found.later:9.3f} {found.bytes:10,}")
    print(f"limit {LIMIT_SECONDS:34.3f} {LIMIT_SECONDS:9.3f} {LIMIT_BYTES:10,}")


if __name__ == "__main__":
    main()
