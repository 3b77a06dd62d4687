"""Damage that sizes and times do not show."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def rot(path: Path, at: int | None = None) -> None:
    """Flip a bit in place, as disks do: size, time and inode stay."""
    status, mode = path.stat(), path.stat().st_mode
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(status.st_size // 2 if at is None else at)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))
    path.chmod(mode & 0o777)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_table(lake: Path, other: Path, table: str) -> None:
    """Put a table of another lake in the place of a lake's own: each is sound by itself."""
    shutil.rmtree(lake / table, ignore_errors=True)
    shutil.copytree(other / table, lake / table)
