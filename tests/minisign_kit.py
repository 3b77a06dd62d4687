"""A pair of keys that minisign 0.11 made (`minisign -G -W`), and the program where it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SECRET_KEY = """untrusted comment: minisign encrypted secret key
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAdhbN3eDizzu+nqFdcJzcn7NT+NxPMM08fsYhdJbTS5M0A9cZXitaJu5woVzyxPe5ks+KkMGg36eX/KqC8dm1m5Y/5qRLQrnjAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
"""
PUBLIC_KEY = "RWR2Fs3d4OLPO+5woVzyxPe5ks+KkMGg36eX/KqC8dm1m5Y/5qRLQrnj"


def minisign(*arguments: str | Path) -> str:
    """What the program says; skips the test where it is not installed."""
    program = shutil.which("minisign")
    if program is None:
        pytest.skip("minisign is not installed: apt install minisign")
    done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    return done.stdout
