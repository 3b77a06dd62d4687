"""Other file systems: those that only one command sees, full or read-only, and a second one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mounted(script: str) -> tuple[str, ...]:
    """What runs a command after mounts of its own, which only it sees."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare, to mount a file system for one process")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount anything")
    return ("unshare", "-m", "sh", "-c", f'{script} && exec "$0" "$@"')


@contextmanager
def other_file_system(folder: Path) -> Iterator[Path]:
    """A new folder on another file system than that of `folder`: in memory, or of the checkout."""
    for other in (Path("/dev/shm"), Path(__file__).parents[1]):
        if other.is_dir() and other.stat().st_dev != folder.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=other, prefix=".strata-") as new:
                yield Path(new)
            return
    pytest.skip("there is no second file system here")
