"""What happens to a log without us: its newest snapshots are lost, or old files are put back."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

RECORD = "seen_snapshot.json"
"""The file of a machine's cache that records the highest snapshot."""


def snapshots(warehouse: Path) -> list[Path]:
    """The snapshots of the log, oldest first."""
    return sorted((warehouse / "log").glob("*.json"))


def lose_snapshots(warehouse: Path, count: int = 1) -> None:
    """Delete the newest snapshots."""
    for path in snapshots(warehouse)[-count:]:
        path.unlink()


def back_up(folder: Path, backup: Path) -> None:
    """Copy a folder, a log or a whole warehouse, with the times of its files."""
    shutil.copytree(folder, backup, symlinks=True)


def put_back(backup: Path, folder: Path) -> None:
    """Put a copy in the place of a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    back_up(backup, folder)


def grow_old(folder: Path, seconds: float = 2 * 3600.0) -> None:
    """Let all files below a folder be older."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - seconds,) * 2)
