"""The files of views that a test session has made, of which its processes take copies.

To make one takes more of the processor than to load a small segment, and most warehouses of tests
have the same views. A warehouse takes a file as it takes its own of the snapshot before: where the
text of the views is the same, only the names of files in it are changed.
`tests/transforms/warehouse/views` lets each be made anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.weed_kit import SESSION
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.views.catalog_file import CatalogFile

_write = CatalogFile.write
_known: list[Path] = []
"""The folder of the files and, beside each, of the hash of its views; none where they are made."""


def take_known_views() -> None:
    """Let this process, and those that it forks, take the files that are there and add others."""
    folder = Path(os.environ[SESSION], "folders", "views")
    folder.mkdir(parents=True, exist_ok=True)
    _known[:] = [folder]
    CatalogFile.write = _take_or_write  # type: ignore[method-assign]


@contextmanager
def views_made_anew() -> Iterator[None]:
    """Let each file be made as by the product during the block."""
    folders, _known[:] = [*_known], []
    try:
        yield
    finally:
        _known[:] = folders


def _take_or_write(self: CatalogFile, path: Path, catalog: Catalog, former: Any = None) -> Any:
    for folder in _known:
        kept = folder / _likeness(catalog)
        views = kept.with_suffix(".views")
        if not kept.exists():
            record = _write(self, path, catalog, former)
            views.write_text(record["views"])
            unfinished = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(path, unfinished)
            unfinished.rename(kept)
            return record
        if former is None or former["views"] != views.read_text():
            shutil.copyfile(kept, path)
            former = {"views": views.read_text()}
    return _write(self, path, catalog, former)


def _likeness(catalog: Catalog) -> str:
    """What catalogs with the same views mostly have in common; `CatalogFile` compares the texts."""
    shapes = [
        (volume.kind, volume.shapes, sorted(volume.data)) for volume in catalog.snapshot.volumes
    ]
    text = f"{shapes} {catalog.snapshot.captures is None}"
    return hashlib.sha256(text.encode()).hexdigest()
