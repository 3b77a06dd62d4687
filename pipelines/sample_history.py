"""The sample history: a small made-up market that anyone can load without a network.

The segments are data of the package; `tests/sample` is the program that made them.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from transforms.files import commit_file
from transforms.scratch import scratch_folder, sweep_scratch

_SCRATCH = ".scratch"


def copy_sample(folder: Path) -> list[Path]:
    """Copy the segment ZIPs and their `index.json` into `folder`; return the ZIPs, ascending.

    A file that has the right bytes is left alone; any other is replaced, whole or not at all.
    """
    sweep_scratch(folder / _SCRATCH)
    with scratch_folder(folder / _SCRATCH) as scratch:
        segments = files("pipelines").joinpath("sample_segments")
        for file in segments.iterdir():
            content, place = file.read_bytes(), folder / file.name
            if not place.is_file() or place.read_bytes() != content:
                unfinished = scratch / file.name
                unfinished.write_bytes(content)
                commit_file(unfinished, place)
    with suppress(OSError):  # another process may use it
        (folder / _SCRATCH).rmdir()
    return sorted(
        (folder / file.name for file in segments.iterdir() if file.name.endswith(".zip")),
        key=lambda path: int(path.stem.rpartition("-")[2]),
    )
