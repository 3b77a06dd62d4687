"""What one load does to another that is at work, and what an abandoned one left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.transforms.warehouse_kit import (
    MemorySink,
    history_segment,
    quarantine_reasons,
    volume_files,
)
from transforms.objects import ObjectInfo
from transforms.segments.segment_zip import TableFile
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.checks.log_repair import repair
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse


class _Interrupted(MemorySink):
    """A sink in front of which something else happens before the first table is taken."""

    def __init__(self, first: Callable[[], object]) -> None:
        super().__init__()
        self._first: Callable[[], object] | None = first

    def write(self, csv: TableFile, body: Iterable[bytes], scratch: Path) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            first()
        super().write(csv, body, scratch)


def _load(warehouse: Warehouse, source: Source, names: Iterable[str], sink: MemorySink) -> None:
    files = [file for file in warehouse.survey(source).pending if file.info.key in names]
    warehouse.load(source, files, sink)


def test_a_refusal_is_kept_where_a_rival_loaded_the_other_segments(tmp_path: Path) -> None:
    bad = history_segment(tmp_path / "in", first=1, last=2, corrupt=lambda data: data[:200])
    good = history_segment(tmp_path / "in", first=3, last=4)
    source = Source(FolderStore(tmp_path / "in"))
    rival = open_warehouse(tmp_path / "warehouse", tmp_path / "rival")
    ours = open_warehouse(tmp_path / "warehouse", tmp_path / "ours")
    interrupted = _Interrupted(lambda: _load(rival, source, [good.name], MemorySink()))
    _load(ours, source, [bad.name, good.name], interrupted)
    assert len(ours.loaded_catalog().blocks) == 1
    assert list(quarantine_reasons(ours)) == [bad.name]


def test_what_a_rival_loaded_first_is_no_load_of_ours(tmp_path: Path) -> None:
    names = [history_segment(tmp_path / "in", first=n, last=n + 1).name for n in (1, 3)]
    source = Source(FolderStore(tmp_path / "in"))
    rival = open_warehouse(tmp_path / "warehouse", tmp_path / "rival")
    ours = open_warehouse(tmp_path / "warehouse", tmp_path / "ours")
    sink = _Interrupted(lambda: _load(rival, source, names[:1], MemorySink()))
    report = ours.load(source, ours.survey(source).pending, sink)
    assert {*map(str, report.loaded)} == {"3-4"}
    assert [str(blocks) for blocks in ours.loaded_catalog().blocks] == ["1-2", "3-4"]
    assert not report.failures


def test_no_two_files_have_the_same_bytes(tmp_path: Path) -> None:
    """Otherwise a sweep that removes an old one would take a new one with it."""
    history_segment(tmp_path / "in", first=1, last=2)
    volumes: list[Volume] = []
    for name in ("a", "b"):
        opened = open_warehouse(tmp_path / name)
        _load(opened, Source(FolderStore(tmp_path / "in")), ["kit-chain-1-1-2.zip"], MemorySink())
        volumes += opened.loaded_catalog().snapshot.history
    first, second = ({file.sha256 for file in volume_files(volume)} for volume in volumes)
    assert len(first) >= 3
    assert first.isdisjoint(second)


def _follow(folder: Path, rival: Warehouse, numbers: Iterable[int]) -> None:
    """Load one segment after the other: each volume is built upon a later snapshot."""
    for number in numbers:
        name = history_segment(folder, first=2 * number + 1, last=2 * number + 2).name
        _load(rival, Source(FolderStore(folder)), [name], MemorySink())


def test_volumes_of_a_rival_do_not_make_a_known_log_an_older_one(tmp_path: Path) -> None:
    rival = open_warehouse(tmp_path / "warehouse", tmp_path / "rival")
    ours = open_warehouse(tmp_path / "warehouse", tmp_path / "ours")
    _follow(tmp_path / "in", rival, [0])
    with ours.one_look():
        before = ours.loaded_catalog().snapshot.number
        _follow(tmp_path / "in", rival, [1, 2])
        assert ours.loaded_catalog().snapshot.number == before
        assert ours.sweep() == []
        assert ours.compact() == []


class _Rivalled(FolderStore):
    """A store where something happens before the manifests are listed for the first time."""

    first: Callable[[], object] | None = None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        if prefix == "manifests/" and self.first is not None:
            first, self.first = self.first, None
            first()
        return super().list(prefix)


def test_volumes_of_a_rival_do_not_make_a_repair_ask_for_a_choice(tmp_path: Path) -> None:
    rival = open_warehouse(tmp_path / "warehouse", tmp_path / "rival")
    _follow(tmp_path / "in", rival, [0])
    store = _Rivalled(tmp_path / "warehouse")
    store.first = lambda: _follow(tmp_path / "in", rival, [1, 2])
    report = repair(Backing(store, tmp_path / "ours"))
    assert len(rival.loaded_catalog().blocks) == 3
    assert report.findings == []
