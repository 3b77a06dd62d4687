"""Documents are written so that nothing stale is left, whoever publishes at the same time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

import pytest

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.publishing.publication import publish_zips
from exporters.publishing.replace import Correction
from tests.archive_kit import CHAIN, contents, segment_requests, shard_file, verify_archive
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import Versioned

DOCUMENTS = (
    *("SHA256SUMS", "conditions.json", "index.html", "index.json", "latest.json"),
    *("index/000000000.html", "a shard"),
    "revisions.json",
)
CORRECTION = Correction("a wrong price", datetime(2026, 1, 31, tzinfo=UTC))


class _Watched(FolderStore):
    """A folder whose documents are read one at a time; `on_read` and `on_write` hear of each."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._lock = RLock()
        self.on_read: Callable[[str], object] = lambda _: None
        self.on_write: Callable[[str], object] = lambda _: None

    def get(self, key: str) -> Versioned:
        with self._lock:
            try:
                return super().get(key)
            finally:
                self.on_read(key)

    def put_if_match(self, key: str, *arguments: Any, **options: Any) -> str:
        with self._lock:
            self.on_write(key)
            return super().put_if_match(key, *arguments, **options)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_who_publishes_while_documents_are_read_is_not_undone(tmp_path: Path, path: str) -> None:
    there = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(there, segment_requests(tmp_path, 1, 1000))
    store = _Watched(tmp_path / "store")
    coming = [segment_requests(tmp_path, 20001, 21000)]  # of another shard
    right = segment_requests(tmp_path, 20001, 21000, ("orders",), salt="right")

    document = there.key(shard_file(there) if path == "a shard" else path)

    def publish_once(key: str) -> None:
        if key == document and coming:
            publish_zips(there, coming.pop())
            publish_zips(there, right, correction=CORRECTION)

    store.on_read = publish_once
    refresh(Archive(store, CHAIN), [0])

    assert not coming
    assert list(verify_archive(there)) == []
    assert there.index().tables["orders"].zips == 2


def test_a_wave_is_written_when_the_one_before_is(tmp_path: Path) -> None:
    store, written = _Watched(tmp_path / "store"), list[str]()
    store.on_write = written.append
    archive = Archive(store, CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 1000))

    first, second, *keys = [key for key in written if not key.endswith(".zip.sha256")]
    assert (first, second) == (archive.key(shard_file(archive)), archive.key("index.json"))
    shard = {f"{CHAIN}/index/000000000.sha256", f"{CHAIN}/index/000000000.html"}
    assert shard <= {*keys[:-3]}
    assert {*keys[-3:]} == {f"{CHAIN}/SHA256SUMS", "chains.json", "index.html"}
    assert {*keys[:-3]} - shard == {key for key in contents(store) if _is_page(key)} - shard


def _is_page(key: str) -> bool:
    """Whether an object follows from the index and is in `SHA256SUMS`, or a page of the chain."""
    name = key.removeprefix(f"{CHAIN}/")
    is_own = name != key and not name.endswith((".zip", ".sha256"))
    return is_own and not re.search(r"index\.json|index/\d+\.\w+\.json|SHA256SUMS", name)
