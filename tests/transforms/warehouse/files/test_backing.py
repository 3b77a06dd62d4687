"""What a look at the warehouse saw, or what was put there, is not looked for again for a minute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transforms.warehouse_kit import MemorySink, history_segment
from transforms.moments import Moment
from transforms.objects import ObjectInfo
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.load_settings import LoadSettings
from transforms.warehouse.load.loader import Loader
from transforms.warehouse.warehouse import Warehouse


class _CountingStore(FolderStore):
    """A store that says which folders were listed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.listed: list[str] = []

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.listed.append(prefix)
        return super().list(prefix)


@pytest.fixture
def store(tmp_path: Path) -> _CountingStore:
    """A warehouse with two segments."""
    store = _CountingStore(tmp_path / "warehouse")
    for first in (1, 3):
        history_segment(tmp_path / "in", first=first, last=first + 1)
        _load(Warehouse(Backing(store, tmp_path / "cache")), tmp_path / "in")
    return store


def _load(warehouse: Warehouse, folder: Path) -> None:
    source = Source(FolderStore(folder))
    pending = warehouse.survey(source).pending
    assert not warehouse.load(source, pending, MemorySink()).failures


def _lost(warehouse: Warehouse) -> int:
    with warehouse.one_look():
        return len(warehouse.loaded_catalog().lost)


def test_what_one_look_saw_the_next_one_need_not_look_for(
    store: _CountingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(Backing(store, tmp_path / "cache"))
    assert _lost(warehouse) == 0
    store.listed.clear()
    assert _lost(warehouse) == 0
    assert store.listed == []
    (file, *_) = (tmp_path / "warehouse" / "data" / "blocks").iterdir()
    file.unlink()
    monkeypatch.setattr(Moment, "passed", lambda _: 61.0)
    assert _lost(warehouse) == 1


def test_what_was_put_is_there(store: _CountingStore, tmp_path: Path) -> None:
    warehouse = Warehouse(Backing(store, tmp_path / "cache"))
    history_segment(tmp_path / "in", first=5, last=6)
    with warehouse.one_look():
        assert _lost(warehouse) == 0
        store.listed.clear()
        _load(warehouse, tmp_path / "in")
        # The sweep lists all of its folders once, and the load looks for newer manifests.
        assert store.listed.count("data/") == 1
        assert store.listed.count("manifests/") == 2
        assert _lost(warehouse) == 0


def test_what_was_put_is_believed_for_no_longer_than_a_minute(
    store: _CountingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(Backing(store, tmp_path / "cache"))
    history_segment(tmp_path / "in", first=5, last=6)
    source = Source(FolderStore(tmp_path / "in"))
    loader = Loader(
        warehouse.backing, tmp_path / "scratch", source, MemorySink(), LoadSettings(), _nothing
    )
    loader.load(warehouse.survey(source).pending)  # by itself it looks at nothing afterwards
    (file,) = (tmp_path / "warehouse" / "data" / "blocks").glob("000000005-*")
    file.unlink()
    monkeypatch.setattr(Moment, "passed", lambda _: 61.0)
    assert _lost(warehouse) == 1


def _nothing(_bytes: int) -> None:
    pass


def test_who_asks_outside_of_a_look_asks_the_store(store: _CountingStore, tmp_path: Path) -> None:
    warehouse = Warehouse(Backing(store, tmp_path / "cache"))
    assert warehouse.loaded_catalog().lost == ()
    (file, *_) = (tmp_path / "warehouse" / "data" / "blocks").iterdir()
    file.unlink()
    assert len(warehouse.loaded_catalog().lost) == 1
