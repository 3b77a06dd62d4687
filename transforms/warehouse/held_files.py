"""The mapped files of a generation: the segments of its manifests, made once on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from transforms.mapped_files import MappedFolder
from transforms.warehouse import segment_lists
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.segment_lists import SegmentList, packed_segments

FOLDER = "segments"


class HeldFiles:
    """The files in a machine's folder for a warehouse, and what is in use of them.

    What a generation has in common with the one before is neither opened nor read again.
    """

    def __init__(self, cache: Path) -> None:
        self._folder = MappedFolder(cache / FOLDER, cache / "scratch")
        self._segments: dict[str, SegmentList] = {}
        self._names: frozenset[str] = frozenset()

    def forget_written(self) -> bool:
        """Whether a mapped file was written to; if so, all are proven again when asked."""
        if not self._folder.written():
            return False
        self._segments = {}
        return True

    def segments(self, catalog: Catalog) -> Mapping[str, SegmentList]:
        """The segments of each volume of history, whose manifests are local, by its key.

        Raises `FileNotFoundError` or `IntegrityError` for a manifest that cannot be read.
        """
        lists: dict[str, SegmentList] = {}
        for volume in catalog.history():
            segment_list = self._segments.get(volume.key)
            if segment_list is None:
                path = catalog.files.path(volume.file)
                name = segment_lists.file_name(volume.file.sha256)
                file = self._folder.get(name, lambda path=path: packed_segments(path))  # type: ignore[misc]
                segment_list = SegmentList.of(file)
            lists[volume.key] = segment_list
        self._segments = lists
        return lists

    def tidy(self, catalog: Catalog) -> None:
        """Remove the files of volumes that a generation, which is the newest, does not name."""
        names = frozenset(
            segment_lists.file_name(volume.file.sha256) for volume in catalog.history()
        )
        if not self._names <= names or not self._names:
            self._folder.keep(names)
        self._names = names
