"""The lake's tables of history follow the warehouse's volumes, table by table; then manifests.

A table should have the data file of each volume that is published. What it lacks of these comes in
one version of it, in which the files of the same blocks go: so it follows the warehouse's merges.
Manifests come last, so a segment that is in one is there whole. Killed anywhere and run again, or
run by two at once, all is there once: what a table has is read from the version that is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

from exporters.archive.archive import won_race
from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_file_check import COLUMNS, is_sound, manifest_statistics, put_in_place
from exporters.lake.lake_files import Lake, lake_tables
from exporters.lake.log.table_version import ActiveFile, FileName
from exporters.lake.tables import LakeReport, LakeTable, NewFile, Version, added_report, each_alone
from exporters.publishing.replace import Correction
from transforms.block_range import BlockRange
from transforms.coverage import inside, union
from transforms.errors import ConfigError, ConflictError
from transforms.lake.parquet_rows import LoadedHistory
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import asked_together
from transforms.tables.file_columns import OWN_COLUMNS
from transforms.tables.registry import history_tables
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume


@dataclass(frozen=True, slots=True)
class _Group:
    """Files of a table and volumes that share blocks with each other, and none with others.

    A file goes whole or not at all: where one of them changes, all of them do.
    """

    files: tuple[ActiveFile, ...]
    volumes: tuple[Volume, ...]

    def lacks(self, table: str) -> bool:
        """Whether blocks of volumes with rows of a table lack, or lie in more files than need be.

        Where volumes are cut otherwise, as those of another warehouse, nothing does.
        """
        targets = [volume.blocks for volume in self.targets(table)]
        there = union(file.blocks for file in self.files)
        is_whole = len([*inside(targets, there)]) == len(targets)
        return bool(targets) and (not is_whole or len(self.files) > len(targets))

    def targets(self, table: str) -> list[Volume]:
        """The volumes of which a table should have a file: those with rows of it."""
        return [volume for volume in self.volumes if _stored(volume, table)]

    def reaches(self, runs: Collection[BlockRange]) -> bool:
        """Whether it has any of some blocks."""
        blocks = (*(file.blocks for file in self.files), *(item.blocks for item in self.volumes))
        return any(any(map(own.overlaps, runs)) for own in blocks)


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
    _differing: dict[BlockRange, frozenset[str]] = field(default_factory=dict)

    def follow(self) -> LakeReport:
        """Add what tables lack; then the manifests of what is in all of them.

        A table to which nothing can be added, for what it holds already, is in the report, and the
        others go on. Errors of the machine end it as they are: run it again.
        """
        report, store = LakeReport(), self.lake.archive.store
        tables = lake_tables(self.loaded.volumes)
        # One listing says how all logs end; where it cannot be had, they are asked for one by one.
        with suppress(ConfigError):
            listing = self.lake.listing()
            for table in (*tables, MANIFESTS):
                self.lake.log(table).expect(listing.get(table, ()))
        for table_report in asked_together(store, self._followed, tables):
            report = report.and_(table_report)
        return report if report.refused else report.and_(self._followed(MANIFESTS))

    def correct(
        self, tables: Sequence[str], blocks: Collection[BlockRange], correction: Correction
    ) -> LakeReport:
        """Put what is loaded there where tables have anything else in some blocks, on the record.

        Files that Strata did not write are named no longer; what lacks comes in the same version,
        so that no reader sees less. The manifests follow, as they vouch for the other tables.
        """
        report = LakeReport()
        names = [name for name in tables if name != MANIFESTS]
        for table in [*names, MANIFESTS] if tables else ():
            if table != MANIFESTS or not report.refused:
                work = partial(self._correct, table, blocks, correction)
                report = report.and_(self._alone(table, work))
        return report

    def _followed(self, table: str) -> LakeReport:
        work = partial(self._follow, table)
        report = self._alone(table, work)
        if not report.refused:
            return report
        # What this machine knows of the tables may be older than what another one put right.
        for name in (table, MANIFESTS):
            self.lake.log(name).forget()
        self._differing.clear()
        return self._alone(table, work)

    def _alone(self, table: str, work: Callable[[], LakeReport]) -> LakeReport:
        return each_alone(table, partial(won_race, work, self.lake.place(table)))

    def _follow(self, table: str) -> LakeReport:
        """Write, upload and name what a table lacks."""
        version = LakeTable(self.lake, table).expected()
        files = version.files if version else ()
        due = [group for group in _groups(files, self.loaded.volumes) if self._is_due(table, group)]
        return self._complete(table, version, due)

    def _complete(self, table: str, version: Version | None, due: Sequence[_Group]) -> LakeReport:
        """Write, upload and name what a version of a table lacks of groups."""
        if not due:
            return LakeReport()
        # A file that is of a volume's very blocks stays.
        there = {file.blocks for group in due for file in group.files}
        own = {volume.blocks for group in due for volume in group.volumes}
        volumes = [v for group in due for v in group.targets(table) if v.blocks not in there]
        old = [file for group in due for file in group.files if file.blocks not in own]
        going = [*old, *_states(version.ours if version else ())]
        is_merge = union(file.blocks for file in old) == union(item.blocks for item in volumes)
        with scratch_folder(self.scratch) as folder:
            new = self._files(table, volumes, folder)
            added = LakeTable(self.lake, table).put(version, new, going, changes_data=not is_merge)
        if is_merge:
            return LakeReport(merged=len(old) - len(added))
        return added_report(table, added)

    def _correct(
        self, table: str, blocks: Collection[BlockRange], correction: Correction
    ) -> LakeReport:
        """Write what a table has otherwise than it is loaded; then follow merges."""
        version = LakeTable(self.lake, table).version()
        if version is None:
            return self._follow(table)
        new: list[NewFile] = []
        old: list[ActiveFile] = []
        due: list[_Group] = []
        report = LakeReport()
        with scratch_folder(self.scratch) as folder:
            for group in _groups(version.ours, self.loaded.volumes):
                is_due = group.reaches(blocks) if group.files else group.lacks(table)
                if not (is_due and self._may_change(table, group)):
                    continue
                if not self._is_right(version, group):
                    new += self._files(table, group.targets(table), folder)
                    old += group.files
                elif group.lacks(table):
                    due.append(group)
            if new or old or version.foreign:
                going = [*old, *_states(version.ours if new else ())]
                put_in_place(version, new, going, correction)
                count = max(len(new), len(old)) + len(version.foreign)
                report = LakeReport(replaced=count)
        return report.and_(self._complete(table, LakeTable(self.lake, table).expected(), due))

    def _may_change(self, table: str, group: _Group) -> bool:
        """Whether all that a group has is published, and, of manifests, in every table.

        Raises `ConflictError` where a file has what is not loaded: it would be lost.
        """
        if not all(map(self.is_published, group.volumes)):
            return False
        if table == MANIFESTS and not all(map(self._is_whole, group.volumes)):
            return False
        runs = union(volume.blocks for volume in group.volumes)
        for file in group.files:
            if not any(run.holds(file.blocks) for run in runs):
                raise ConflictError(
                    f"{self.lake.place(table, file.name)} holds blocks that the warehouse "
                    "lacks: load their segments first"
                )
        return True

    def _is_due(self, table: str, group: _Group) -> bool:
        """Whether a table lacks something of a group, and may have it.

        Raises `ConflictError` where files that go have other rows than are loaded.
        """
        if not (group.lacks(table) and self._may_change(table, group)):
            return False
        for file in group.files:
            if not self._is_same(table, file.blocks):
                raise ConflictError(
                    f"{self.lake.place(table, file.name)} has other rows than are loaded: "
                    f"strata publish --replace REASON --table {table} --blocks {file.blocks} "
                    "puts the loaded ones there"
                )
        return True

    def _is_whole(self, volume: Volume) -> bool:
        """Whether every table has the rows of a volume."""
        for table in volume.data.keys() & frozenset(history_tables()):
            version = LakeTable(self.lake, table).expected()
            if version is None or version.lacks([volume.blocks]):
                return False
        return True

    def _is_same(self, table: str, blocks: BlockRange) -> bool:
        """Whether the lake's receipts in these blocks, if any, are those of what is loaded."""
        tables = self._differing.get(blocks)  # tables that follow side by side may clear it
        if tables is None:
            loaded = {_said(receipt) for receipt in self.loaded.receipts(blocks)}
            others = (receipt for receipt in self._receipts(blocks) if _said(receipt) not in loaded)
            tables = self._differing[blocks] = frozenset(receipt.table for receipt in others)
        return table not in tables and not (table == MANIFESTS and tables)

    def _receipts(self, blocks: BlockRange) -> Iterator[Receipt]:
        version = LakeTable(self.lake, MANIFESTS).expected()
        for file in version.files if version else ():
            if file.blocks.overlaps(blocks):
                with scratch_folder(self.scratch) as folder:
                    copy = folder / "manifest.parquet"
                    self.lake.fetch(MANIFESTS, file, copy)
                    receipts = [*manifest_receipts([copy])]
                yield from (receipt for receipt in receipts if blocks.holds(receipt.blocks))

    def _is_right(self, version: Version, group: _Group) -> bool:
        """Whether there are files, with just the rows of their blocks, as the log describes them.

        One that is not a volume's own file must render them.
        """
        table = version.table
        stored = ((volume.blocks, _stored(volume, table)) for volume in group.volumes)
        own = {str(FileName.of(blocks, file.sha256)) for blocks, file in stored if file}
        is_twice = any(one.blocks.overlaps(two.blocks) for one, two in pairwise(group.files))
        if not group.files or is_twice:
            return False
        for file in group.files:
            receipts = None
            if file.name not in own:
                receipts = self.loaded.receipts(file.blocks)
                receipts = [r for r in receipts if table in (r.table, MANIFESTS)]
            if not is_sound(version, file, receipts, self.scratch):
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


def _stored(volume: Volume, table: str) -> StoredFile | None:
    """The file of a volume that a table should have; None where it has no rows of the table."""
    return volume.file if table == MANIFESTS else volume.data.get(table)


def _said(receipt: Receipt) -> tuple[object, ...]:
    """What a receipt says of a CSV."""
    return receipt.segment, receipt.schema, receipt.rows, receipt.sha256


def _states(files: Sequence[ActiveFile]) -> list[ActiveFile]:
    """Copies of a table that was current state, of which there is history now."""
    return [file for file in files if file.csv]


def _groups(files: Sequence[ActiveFile], volumes: Sequence[Volume]) -> Iterator[_Group]:
    """Files of history and volumes in groups that share no block, ascending."""
    history = (file for file in files if not file.csv)
    parts: list[ActiveFile | Volume] = sorted([*history, *volumes], key=lambda part: part.blocks)
    while parts:
        last, size = parts[0].blocks.last, 1
        while size < len(parts) and parts[size].blocks.first <= last:
            last = max(last, parts[size].blocks.last)
            size += 1
        group, parts = parts[:size], parts[size:]
        yield _Group(
            tuple(part for part in group if isinstance(part, ActiveFile)),
            tuple(part for part in group if isinstance(part, Volume)),
        )
