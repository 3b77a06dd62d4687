"""The mapped files of a generation: what servers hold of its volumes, made once on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from transforms.duck import Connection, file_connection
from transforms.lookups import held_lookups
from transforms.lookups.held_lookups import Lookups, packed_lookups
from transforms.mapped_files import MappedFolder
from transforms.objects import StoredFile
from transforms.warehouse import segment_lists
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.segment_lists import SegmentList, packed_segments

FOLDER = "lookups"
WRITTEN_AGAIN = "withdrawals-written-again"
"""The file with the withdrawals that several volumes have."""


class HeldFiles:
    """The files in a machine's folder for a warehouse, and what is in use of them.

    What a generation has in common with the one before is neither opened nor read again.
    """

    def __init__(self, cache: Path) -> None:
        self.folder = MappedFolder(cache / FOLDER, cache / "scratch")
        self._lookups: dict[str, Lookups | None] = {}
        self._segments: dict[str, SegmentList] = {}
        self._names: frozenset[str] = frozenset()

    def forget_written(self) -> bool:
        """Whether a mapped file was written to; if so, all are proven again when asked."""
        if not self.folder.written():
            return False
        self._lookups, self._segments = {}, {}
        return True

    def lookups(self, catalog: Catalog) -> Mapping[str, Lookups | None]:
        """The lookups of each volume that has an index file, which is local, by its key.

        Raises `UnreadableFilesError` for an index file that cannot be read.
        """
        with ExitStack() as closing:
            con: list[Connection] = []

            def make(index: StoredFile) -> bytes:
                if not con:
                    con.append(closing.enter_context(file_connection()))
                return packed_lookups(con[0], catalog.files.path(index))

            lookups: dict[str, Lookups | None] = {}
            for volume in catalog.history():
                if volume.index is None:
                    continue
                if volume.key in self._lookups:
                    lookups[volume.key] = self._lookups[volume.key]
                else:
                    name = held_lookups.file_name(volume.index.sha256)
                    file = self.folder.get(name, lambda index=volume.index: make(index))  # type: ignore[misc]
                    lookups[volume.key] = Lookups.of(file)
        self._lookups = lookups
        return lookups

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
                file = self.folder.get(name, lambda path=path: packed_segments(path))  # type: ignore[misc]
                segment_list = SegmentList.of(file)
            lists[volume.key] = segment_list
        self._segments = lists
        return lists

    def tidy(self, catalog: Catalog) -> None:
        """Remove the files of volumes that a generation, which is the newest, does not name."""
        names = frozenset(
            name
            for volume in catalog.history()
            for name in (
                held_lookups.file_name(volume.index.sha256) if volume.index else "",
                segment_lists.file_name(volume.file.sha256),
            )
        )
        if not self._names <= names or not self._names:
            self.folder.keep({*names, WRITTEN_AGAIN})
        self._names = names
