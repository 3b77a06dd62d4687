"""What `strata verify --quick` costs beside few segments and beside many, the first time and again.

Run it: `python -m tests.benchmarks.quick_check [segments ...]`; by default 1,000 and 10,000. The
warehouse is that of `tests.benchmarks.clones`, without a lake; of the archive each ZIP and hash
file is there: the ZIPs hold the same bytes, which are no ZIP, as a quick check hashes them and no
more. Of 75,000 segments these are 2.25 million files. With STRATA_BENCH=<folder> they are kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.entries import Csv, Entry, SegmentSource
from exporters.archive.hash_lists import hash_line
from exporters.archive.shards import Shard, shard_number
from exporters.archive.stored_shards import put_shard
from exporters.locations import Locations
from exporters.zip_names import csv_name, zip_name
from exporters.zips.runs import Run
from tests.benchmarks.api import History
from tests.benchmarks.market import CHAIN
from tests.benchmarks.measure import measured
from tests.benchmarks.scale_rows import command
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.manifests.manifest import manifest_receipts, manifest_segments
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

SIZES = (1000, 10_000)
_ZIP = b"quick" * 220
_SHA256 = hashlib.sha256(_ZIP).hexdigest()
_MOST_LINKS = 30_000


def check(settings: Locations) -> None:
    """Run one quick check, which finds nothing."""
    command(settings, "verify", "--quick")


def make(folder: Path, segments: int) -> Locations:
    """The places of a site of so many segments below a folder; made unless they are there."""
    clones = History(folder / f"{segments}-cloned", segments, is_cloned=True)
    clones.made()
    root = folder / f"{segments}-quick"
    settings = Locations(
        source="", warehouse=str(root / "warehouse"), archive=str(root / "archive")
    )
    if not (root / "done").exists():
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(clones.folder / "warehouse", root / "warehouse", copy_function=os.link)
        _publish(settings)
        (root / "done").touch()
    return settings


def _publish(settings: Locations) -> None:
    archive = Archive(FolderStore(Path(settings.archive)), CHAIN)
    warehouse, shards = open_warehouse(settings.warehouse), dict[int, list[Entry]]()
    for volume in warehouse.loaded_catalog().snapshot.history:
        for entry in _entries(warehouse, volume):
            shards.setdefault(shard_number(entry.blocks), []).append(entry)
    folder = Path(settings.archive, CHAIN)
    (folder / "index").mkdir(parents=True)
    for table in HISTORY_TABLES:
        (folder / table).mkdir()
    zips = _copies(Path(settings.archive).parent / "zip")
    for number, entries in shards.items():
        shard = Shard(CHAIN, number, tuple(entries))
        put_shard(archive, number, shard.to_bytes())
        for entry in entries:
            os.link(next(zips), folder / entry.path)
            (folder / f"{entry.path}.sha256").write_bytes(hash_line(entry))
    refresh(archive, shards)
    command(settings, "publish")


def _copies(path: Path) -> Iterator[Path]:
    """Files with the same bytes to make links of: a file system counts a file's links."""
    number = 0
    while True:
        copy = path.with_name(f"{path.name}-{number}")
        copy.write_bytes(_ZIP)
        for _ in range(_MOST_LINKS):
            yield copy
        number += 1


def _entries(warehouse: Warehouse, volume: Volume) -> Iterator[Entry]:
    manifest = warehouse.backing.files.path(volume.file)
    segments = {segment.blocks: segment for segment in manifest_segments(manifest)}
    for receipt in manifest_receipts([manifest]):
        if receipt.table in HISTORY_TABLES:
            yield _entry(segments[receipt.blocks], receipt)


def _entry(segment: LoadedSegment, receipt: Receipt) -> Entry:
    table, blocks, version = receipt.table, receipt.blocks, segment.name.version
    name, runs = csv_name(CHAIN, table, version, blocks), (Run(100, 100, 1), Run(1000, 4000, 1))
    facts = (receipt.rows, receipt.bytes, receipt.sha256)
    member = Csv(name, *facts, receipt.schema, runs)
    source = SegmentSource(blocks, version, segment.segment_id, "0" * 64, segment.previous_id)
    path = f"{table}/{zip_name(CHAIN, table, blocks)}"
    return Entry(table, path, len(_ZIP), _SHA256, source, member)


def forget(settings: Locations) -> None:
    """Let no check know of an earlier one."""
    for path in Path(settings.warehouse).glob("sound.*"):
        path.unlink()


def main(sizes: Sequence[int]) -> None:
    """Print what the first check of a machine costs, and the next one."""
    print("| segments | the first | again |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="strata-quick-") as temporary:
        folder = Path(os.environ.get("STRATA_BENCH") or temporary)
        for size in sizes:
            settings = make(folder, size)
            forget(settings)
            costs = [measured(check, settings) for _ in range(2)]
            cells = (f"{cost.cpu:.1f} s, {cost.peak / 2**20:.0f} MiB" for cost in costs)
            print(f"| {size:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("segments", type=int, nargs="*")
    main(parser.parse_args().segments or SIZES)
