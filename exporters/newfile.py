"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

TEMP_SUFFIX = ".tmp"


@contextmanager
def new_file(
    path: Path, scratch: Path | None = None, *, durable: bool = True
) -> Iterator[BinaryIO]:
    """Open a file that takes the name `path`, replacing what is there, when the block succeeds.

    Until then it lies in `scratch` (default: beside `path`), which must be on the same file system;
    a killed process leaves garbage only there. `durable` makes file and name survive a power cut.
    """
    scratch = scratch or path.parent
    for folder in (path.parent, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    temp = scratch / f"{path.name}.{uuid4().hex}{TEMP_SUFFIX}"
    try:
        with temp.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temp.replace(path)
        if durable:
            _sync_folder(path.parent)
    finally:
        temp.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
