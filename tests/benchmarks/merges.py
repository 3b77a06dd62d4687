"""What merging after each load rewrites, with real volumes.

Run it: `python -m tests.benchmarks.merges`. Segments are loaded one by one and twelve at a time;
the log says which volumes there were. The simulation beside it goes to 75,000 segments.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from exporters.zips.staging import PartStage
from tests.benchmarks.market import write_history
from transforms.block_range import BlockRange
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.warehouse_address import open_warehouse

SEGMENTS = 96
BATCHES = (1, 12)


@dataclass(frozen=True, slots=True)
class Row:
    """One history: segments a load, bytes on disk as loaded and as merged, volumes left, time."""

    batch: int
    loaded: int
    rewritten: int
    volumes: int
    cpu: float

    def line(self) -> str:
        """The row of the table in docs/performance.md."""
        each = self.loaded / SEGMENTS / 1e6
        return (
            f"| {self.batch} | {each:.2f} | {self.rewritten / self.loaded:.2f} | "
            f"{self.volumes} | {self.cpu:.0f} |"
        )


def measure(source: Path, home: Path, batch: int) -> Row:
    """Load everything in batches into a fresh warehouse."""
    warehouse = open_warehouse(home / "warehouse")
    origin = Source(FolderStore(source))
    pending = warehouse.survey(origin).pending
    stage = PartStage(home / "parts")
    loaded: set[BlockRange] = set()
    began = time.process_time()
    for start in range(0, len(pending), batch):
        segments = warehouse.load(origin, pending[start : start + batch], stage).loaded
        loaded.add(BlockRange(segments[0].first, segments[-1].last))
    cpu = time.process_time() - began
    log = warehouse.backing.log
    written = {v.blocks: v.size for number in log.numbers() for v in log.read(number).history}
    fresh = sum(size for blocks, size in written.items() if blocks in loaded)
    left = len(warehouse.loaded_catalog().snapshot.history)
    return Row(batch, fresh, sum(written.values()) - fresh, left, cpu)


def main() -> None:
    """Print the table."""
    print("| segments a load | MB a segment | rewritten per byte | volumes left | processor s |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_history(folder / "source", SEGMENTS)
        for batch in BATCHES:
            print(measure(folder / "source", folder / str(batch), batch).line(), flush=True)


if __name__ == "__main__":
    main()
