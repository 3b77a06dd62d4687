"""The lake's tables of history follow the warehouse's volumes, table by table; then manifests.

A table should have the data file of each volume that is published, and no other file of its blocks.
What differs is put right in one version of it: so it follows merges and corrections alike, and a
file that was removed comes back. Manifests come last, so a segment that is in one is there whole.
Killed anywhere and run again, or run by two at once, all is there once: what a table has is read
from the version that is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_files import Lake, file_name, file_of, lake_tables
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.tables import LakeTable
from transforms.coverage import union
from transforms.errors import ConflictError
from transforms.files import link
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.shapes import Volume


@dataclass
class HistoryTables:
    """The tables of history of a lake, and the loaded history that they follow.

    `is_published` says whether the archive has all segments of a volume as they are loaded;
    `advance` gets the bytes of files that were put there.
    """

    lake: Lake
    catalog: Catalog
    is_published: Callable[[Volume], bool]
    scratch: Path
    advance: Callable[[int], object] = lambda _bytes: None

    def follow(self) -> dict[str, str]:
        """Let tables have what they should; then the manifests of what is in all of them.

        Returns why tables could not. Errors of the machine end it as they are: run it again.
        """
        self.lake.look()
        refused = self.lake.refusals(self._follow, lake_tables(self.catalog.snapshot.history))
        return refused or self.lake.refusals(self._follow, [MANIFESTS])

    def _follow(self, table: LakeTable) -> None:
        """Put there what a table lacks, and name what it should not have no longer."""
        version = table.version()
        new, old = self._changes(table)
        if new or old:
            old += (file for file in version.files if file.csv)  # once it was current state
            with scratch_folder(self.scratch) as folder:
                table.put(version, self._files(table.name, new, folder), old)

    def _changes(self, table: LakeTable) -> tuple[dict[str, StoredFile], list[ActiveFile]]:
        """The files that a table should get, by name, and those in whose place they come.

        Raises `ConflictError` where such a file has other blocks, too, which would be lost.
        """
        history = self.catalog.snapshot.history
        names = {volume.blocks: file_name(volume, table.name) for volume in history}
        there = table.infos.keys() & {file.name for file in table.files}
        others = [file for file in table.history if file.name != names.get(file.blocks)]
        taken = union(file.blocks for file in others)
        new = [
            volume
            for volume in history
            if (name := names[volume.blocks]) not in there
            and (name or any(map(volume.blocks.overlaps, taken)))
            and self.is_published(volume)
        ]
        coming = union(volume.blocks for volume in new)
        old = [file for file in others if any(map(file.blocks.overlaps, coming))]
        for file in old:
            if not any(run.holds(file.blocks) for run in coming):
                raise ConflictError(
                    f"{table.place(file.name)} also holds blocks that the warehouse lacks, or that "
                    "are published otherwise than they are loaded: load and publish their segments "
                    "first"
                )
        files = {names[volume.blocks]: file_of(volume, table.name) for volume in new}
        return {name: file for name, file in files.items() if name and file}, old

    def _files(
        self, table: str, files: Mapping[str, StoredFile], scratch: Path
    ) -> Iterator[tuple[Path, str]]:
        """The files that a table should have, as they are put there, with their SHA-256."""
        for name, file in files.items():
            # Bytes that were proven by the load are hashed before they are published.
            with self.catalog.files.hold([file], recheck=True):
                link(self.catalog.files.path(file), scratch / name)
            yield scratch / name, file.sha256
            self.advance(0 if table == MANIFESTS else file.size)
