"""The lake's tables of history follow the warehouse's volumes, table by table; then manifests.

A table should have the data file of each volume that is published, and no other file of its blocks.
What differs is put right in one version of it: so it follows merges and corrections alike, and a
file that was removed comes back. Manifests come last, so a segment that is in one is there whole.
Killed anywhere and run again, or run by two at once, all is there once: what a table has is read
from the version that is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from exporters.archive.archive import won_race
from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_files import Lake, file_name, lake_tables
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.manifest_files import COLUMNS, manifest_statistics
from exporters.lake.tables import LakeReport, LakeTable, NewFile, added_report, each_alone
from transforms.coverage import inside, union
from transforms.errors import ConfigError, ConflictError
from transforms.lake.parquet_rows import LoadedHistory
from transforms.scratch import scratch_folder
from transforms.stores.store import asked_together
from transforms.tables.file_columns import OWN_COLUMNS
from transforms.tables.registry import history_tables
from transforms.warehouse.manifests.shapes import Volume


@dataclass(frozen=True, slots=True)
class _Group:
    """Files of a table and volumes that share blocks with each other, and none with others.

    A file goes whole or not at all: where one of them changes, all of them do. `wanted` are the
    volumes with rows of the table, by the name of their file.
    """

    files: tuple[ActiveFile, ...]
    volumes: tuple[Volume, ...]
    wanted: Mapping[str, Volume]

    @property
    def old(self) -> list[ActiveFile]:
        """The files that should go."""
        return [file for file in self.files if file.name not in self.wanted]

    @property
    def is_covered(self) -> bool:
        """Whether files have the blocks of all wanted volumes."""
        targets = [volume.blocks for volume in self.wanted.values()]
        there = union(file.blocks for file in self.files)
        return len([*inside(targets, there)]) == len(targets)


@dataclass
class HistoryTables:
    """The tables of history of a lake, and the history that they follow.

    `is_published` says whether the archive has all segments of a volume as they are loaded;
    `advance` gets the bytes of files that were put there.
    """

    lake: Lake
    loaded: LoadedHistory
    is_published: Callable[[Volume], bool]
    scratch: Path
    advance: Callable[[int], object] = lambda _bytes: None
    _listed: dict[str, frozenset[str]] = field(default_factory=dict)

    def follow(self) -> LakeReport:
        """Let tables have what they should; then the manifests of what is in all of them.

        A table to which nothing can be added, for what it holds already, is in the report, and the
        others go on. Errors of the machine end it as they are: run it again.
        """
        report, store = LakeReport(), self.lake.archive.store
        tables = lake_tables(self.loaded.volumes)
        # One listing says how all logs end; where it cannot be had, they are asked for one by one.
        with suppress(ConfigError):
            listing = self.lake.listing()
            for table in (*tables, MANIFESTS):
                infos = listing.get(table, ())
                self.lake.log(table).expect(infos)
                self._listed[table] = frozenset(self.lake.parts(info.key)[1] for info in infos)
        for table_report in asked_together(store, self._followed, tables):
            report = report.and_(table_report)
        return report if report.refused else report.and_(self._followed(MANIFESTS))

    def _followed(self, table: str) -> LakeReport:
        work = partial(won_race, partial(self._follow, table), self.lake.place(table))
        report = each_alone(table, work)
        if not report.refused:
            return report
        # What this machine knows of the tables may be older than what another one put right.
        for name in (table, MANIFESTS):
            self.lake.log(name).forget()
        return each_alone(table, work)

    def _follow(self, table: str) -> LakeReport:
        """Write, upload and name what a table lacks; name what it should not have no longer."""
        version = LakeTable(self.lake, table).expected()
        files = version.files if version else ()
        groups = _groups(table, files, self.loaded.volumes)
        lacking = ((group, self._lacking(table, group)) for group in groups)
        due = [(group, volumes) for group, volumes in lacking if volumes is not None]
        if not due:
            return LakeReport()
        old = [file for group, _ in due for file in group.old]
        going = [*old, *_states(version.ours if version else ())]
        volumes = [volume for _, own in due for volume in own]
        with scratch_folder(self.scratch) as folder:
            new = self._files(table, volumes, folder)
            return added_report(table, LakeTable(self.lake, table).put(version, new, going))

    def _lacking(self, table: str, group: _Group) -> list[Volume] | None:
        """The volumes of which a table should get files in place of others of a group.

        None where it has what it should, or may not have it yet. Raises `ConflictError` where files
        that should go have blocks that are not loaded: they would be lost.
        """
        if not group.volumes:
            return None
        there = {file.name for file in group.files if not self._is_gone(table, file)}
        if there == group.wanted.keys():
            return None
        runs = union(volume.blocks for volume in group.volumes)
        for file in group.files:
            if not any(run.holds(file.blocks) for run in runs):
                if group.is_covered:
                    return None
                raise ConflictError(
                    f"{self.lake.place(table, file.name)} holds blocks that the warehouse "
                    "lacks: load their segments first"
                )
        if not all(map(self.is_published, group.volumes)):
            return None
        if table == MANIFESTS and not all(map(self._is_whole, group.volumes)):
            return None
        return [volume for name, volume in group.wanted.items() if name not in there]

    def _is_gone(self, table: str, file: ActiveFile) -> bool:
        """Whether a file that a table names is not there; it may have come after the listing."""
        listed = self._listed.get(table)
        if listed is None or file.name in listed:
            return False
        return self.lake.archive.store.head(self.lake.key(table, file.name)) is None

    def _is_whole(self, volume: Volume) -> bool:
        """Whether every table has the file of a volume."""
        for table in volume.data.keys() & frozenset(history_tables()):
            version = LakeTable(self.lake, table).expected()
            if version is None or file_name(volume, table) not in version.named:
                return False
        return True

    def _files(self, table: str, volumes: Sequence[Volume], scratch: Path) -> Iterator[NewFile]:
        """The files that a table should have of volumes with rows of it."""
        for volume in volumes:
            folder = Path(mkdtemp(dir=scratch))
            if table == MANIFESTS:
                path = self.loaded.manifest(volume, folder)
                statistics, sha256 = manifest_statistics(path), volume.file.sha256
                yield NewFile(path, volume.blocks, sha256, statistics, COLUMNS)
            else:
                file = self.loaded.file(volume, table, folder)
                columns, data = (*file.columns, *OWN_COLUMNS), volume.data[table]
                yield NewFile(file.path, volume.blocks, data.sha256, file.statistics, columns)
                self.advance(data.size)


def _states(files: Sequence[ActiveFile]) -> list[ActiveFile]:
    """Copies of a table that was current state, of which there is history now."""
    return [file for file in files if file.csv]


def _groups(table: str, files: Sequence[ActiveFile], volumes: Sequence[Volume]) -> Iterator[_Group]:
    """Files of history and volumes in groups that share no block, ascending."""
    history = (file for file in files if not file.csv)
    parts: list[ActiveFile | Volume] = sorted([*history, *volumes], key=lambda part: part.blocks)
    while parts:
        last, size = parts[0].blocks.last, 1
        while size < len(parts) and parts[size].blocks.first <= last:
            last = max(last, parts[size].blocks.last)
            size += 1
        group, parts = parts[:size], parts[size:]
        own = [part for part in group if isinstance(part, Volume)]
        named = ((file_name(volume, table), volume) for volume in own)
        yield _Group(
            tuple(part for part in group if isinstance(part, ActiveFile)),
            tuple(own),
            {name: volume for name, volume in named if name},
        )
