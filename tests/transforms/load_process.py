"""Loads a folder in a process of its own, which a test may hold up or limit.

    python -m tests.transforms.load_process ROOT FOLDER [options]

`--wait FIFO` stops before the first table is taken until the FIFO is opened and closed by another;
`--largest BYTES` bounds the size of any file it writes; `--each` makes a volume and a snapshot of
each segment. Prints what was loaded as JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Iterable
from pathlib import Path

from tests.transforms.warehouse_kit import MemorySink, load_folder
from transforms.segments.segment_zip import TableFile
from transforms.warehouse.load import loader


class _Gate(MemorySink):
    """A sink that waits at the first table."""

    def __init__(self, wait: Path | None) -> None:
        super().__init__()
        self._wait = wait

    def write(self, csv: TableFile, body: Iterable[bytes], scratch: Path) -> None:
        if self._wait is not None:
            self._wait.read_bytes()
            self._wait = None
        super().write(csv, body, scratch)


def main() -> None:
    """Load, and print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wait", type=Path)
    parser.add_argument("--largest", type=int)
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args()
    if options.largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.largest, options.largest))
    if options.each:
        loader.VOLUME_BYTES = 1
    gate = _Gate(options.wait)
    report = load_folder(options.root, options.folder, gate)
    loaded = [str(blocks) for blocks in report.loaded]
    failed = [refusal.reason for refusal in report.failures]
    print(json.dumps({"loaded": loaded, "failed": failed}))


if __name__ == "__main__":
    main()
