"""A small archive to fetch from."""

from __future__ import annotations

from pathlib import Path

from exporters.archive.archive import Archive
from exporters.publishing.bundles import bundle_request, due_bundles
from exporters.publishing.publication import publish_zips
from tests.archive_kit import CHAIN, segment_requests
from transforms.stores.folder_store import FolderStore
from transforms.verifying.proofs import Proofs

ROWS = 2000
"""Of each ZIP: enough for a body that can be cut."""


def make_archive(folder: Path) -> Path:
    """All tables of segments 1-10, 11-13, 14-20, 21-30; of orders the first two as a bundle, too.

    The last segment has other columns. Returns the archive's folder.
    """
    archive = Archive(FolderStore(folder / "archive"), CHAIN)
    for blocks in ((1, 10), (11, 13), (14, 20)):
        publish_zips(archive, segment_requests(folder, *blocks, rows=ROWS))
    bundles = due_bundles(archive, "orders", 2)
    publish_zips(archive, [bundle_request(archive, one, Proofs()) for one in bundles])
    publish_zips(archive, segment_requests(folder, 21, 30, rows=ROWS, version=25))
    return folder / "archive"
