"""A small archive to fetch from."""

from __future__ import annotations

from pathlib import Path

from exporters.archive.archive import Archive
from exporters.publishing.publication import publish_zips
from tests.archive_kit import CHAIN, segment_requests
from transforms.stores.folder_store import FolderStore

ROWS = 2000
"""Of each ZIP: enough for a body that can be cut."""


def make_archive(folder: Path) -> Path:
    """All tables of segments 1-10, 11-13, 14-20, 21-30.

    The last segment has other columns. Returns the archive's folder.
    """
    archive = Archive(FolderStore(folder / "archive"), CHAIN)
    for blocks in ((1, 10), (11, 13), (14, 20)):
        publish_zips(archive, segment_requests(folder, *blocks, rows=ROWS))
    publish_zips(archive, segment_requests(folder, 21, 30, rows=ROWS, version=25))
    return folder / "archive"
