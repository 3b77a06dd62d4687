"""File systems that only one command sees: a full one, a read-only one."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def mounted(script: str) -> tuple[str, ...]:
    """What runs a command after mounts of its own, which only it sees."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare, to mount a file system for one process")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount anything")
    return ("unshare", "-m", "sh", "-c", f'{script} && exec "$0" "$@"')
