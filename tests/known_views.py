"""The files of views that a test session has made, of which its processes take copies.

To make one takes more of the processor than to load a small segment, and most warehouses of tests
have the same views. A warehouse takes a file as it takes its own of the snapshot before: where the
text of the views is the same, only the names of files in it are changed.
`tests/transforms/warehouse/views` lets each be made anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.weed_kit import SESSION
from transforms.warehouse.views import catalog_file

_copies = vars(catalog_file)["_is_copied"]
_write = vars(catalog_file)["_write"]
_known: list[Path] = []
"""The folder of the files, by the hash of their views; none where they are made anew."""


def take_known_views() -> None:
    """Let this process, and those that it forks, take the files that are there and add others."""
    folder = Path(os.environ[SESSION], "folders", "views")
    folder.mkdir(parents=True, exist_ok=True)
    _known[:] = [folder]
    vars(catalog_file).update(_is_copied=_copies_or_takes, _write=_write_and_keep)


@contextmanager
def views_made_anew() -> Iterator[None]:
    """Let each file be made as by the product during the block."""
    folders, _known[:] = [*_known], []
    try:
        yield
    finally:
        _known[:] = folders


def _copies_or_takes(before: Path, path: Path, views: str) -> bool:
    if _copies(before, path, views):
        return True
    for folder in _known:
        if (folder / views).exists():
            shutil.copyfile(folder / views, path)
            return True
    return False


def _write_and_keep(path: Path, catalog: Any, record: Any, statements: Any) -> None:
    _write(path, catalog, record, statements)
    for folder in _known:
        if not (folder / record.views).exists():
            unfinished = folder / f"{record.views}.{os.getpid()}"
            shutil.copyfile(path, unfinished)
            unfinished.rename(folder / record.views)
