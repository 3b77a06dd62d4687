"""Loads a folder in a process of its own, which a test may hold up, limit or kill.

    python -m tests.transforms.load_process ROOT FOLDER [options]

`--wait FIFO` stops before the first table is taken until the FIFO is opened and closed by another;
`--kill-at N` kills the process by SIGKILL in the middle of the Nth table, `--kill-commit` when all
is there but the snapshot; `--largest BYTES` bounds the size of any file it writes; `--each` makes a
volume and a snapshot of each segment. Prints what was loaded as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.transforms.warehouse_kit import MemorySink, load_folder
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema
from transforms.warehouse.load.load_settings import LoadSettings
from transforms.warehouse.log.log import Log
from transforms.warehouse.log.snapshot import Snapshot


class _Gate(MemorySink):
    """A sink that waits, or is killed, at a given table."""

    def __init__(self, wait: Path | None, kill_at: int) -> None:
        super().__init__()
        self._wait = wait
        self._left = kill_at

    def write(
        self,
        segment: SegmentName,
        schema: TableSchema,
        header: bytes,
        body: Iterable[bytes],
        rows: int,
        scratch: Path,
    ) -> None:
        if self._wait is not None:
            self._wait.read_bytes()
            self._wait = None
        self._left -= 1
        super().write(segment, schema, header, self._killing(body), rows, scratch)

    def _killing(self, body: Iterable[bytes]) -> Iterator[bytes]:
        yield from body
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _killed(log: Log, snapshot: Snapshot) -> Snapshot | None:
    if snapshot.volumes:
        os.kill(os.getpid(), signal.SIGKILL)
    return _create(log, snapshot)


_create = Log.create


def main() -> None:
    """Load, and print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wait", type=Path)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--kill-commit", action="store_true")
    parser.add_argument("--largest", type=int)
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args()
    if options.kill_commit:
        Log.create = _killed  # type: ignore[assignment,method-assign]
    if options.largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.largest, options.largest))
    settings = LoadSettings(max_volume_bytes=1) if options.each else LoadSettings()
    gate = _Gate(options.wait, options.kill_at)
    report = load_folder(options.root, options.folder, gate, settings)
    loaded = sorted({receipt.segment.file_name for receipt in report.receipts})
    failed = [refusal.reason for refusal in report.failures]
    print(json.dumps({"loaded": loaded, "failed": failed, "volumes": report.volumes}))


if __name__ == "__main__":
    main()
