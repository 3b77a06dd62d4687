"""What one load does to another that is at work, and what an abandoned one left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.transforms.warehouse_kit import MemorySink, history_segment, quarantine_reasons
from transforms.segments.segment_name import SegmentName
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import TableSchema
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse


class _Interrupted(MemorySink):
    """A sink in front of which something else happens before the first table is taken."""

    def __init__(self, first: Callable[[], object]) -> None:
        super().__init__()
        self._first: Callable[[], object] | None = first

    def write(
        self,
        segment: SegmentName,
        schema: TableSchema,
        header: bytes,
        body: Iterable[bytes],
        rows: int,
    ) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            first()
        super().write(segment, schema, header, body, rows)


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
    assert len(ours.loaded_catalog().segments) == 1
    assert list(quarantine_reasons(ours)) == [bad.name]


def test_no_two_files_have_the_same_bytes(tmp_path: Path) -> None:
    """Otherwise a sweep that removes an old one would take a new one with it."""
    history_segment(tmp_path / "in", first=1, last=2)
    volumes = []
    for name in ("a", "b"):
        opened = open_warehouse(tmp_path / name)
        _load(opened, Source(FolderStore(tmp_path / "in")), ["kit-chain-1-1-2.zip"], MemorySink())
        volumes += opened.loaded_catalog().history()
    first, second = ({file.sha256 for file in volume.files} for volume in volumes)
    assert len(first) >= 3
    assert first.isdisjoint(second)
