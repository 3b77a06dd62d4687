"""One table of the lake: which segments it has, and putting files into it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING

from exporters.lake.lake_files import PARQUET_TYPE, FileName, Lake
from exporters.lake.log.stored_log import StoredLog
from exporters.lake.log.table_version import ActiveFile, AddedFile, TableVersion
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import ConflictError, IntegrityError
from transforms.objects import ObjectInfo
from transforms.stores.store import LostRaceError, content_size
from transforms.tables.file_columns import OWN_COLUMNS, FileColumn
from transforms.tables.registry import fold_case

if TYPE_CHECKING:
    from exporters.lake.new_files import NewFile


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file that a table is made of, by what its name says."""

    file: ActiveFile
    name: FileName

    @property
    def blocks(self) -> BlockRange:
        """The blocks of its segments."""
        return self.name.blocks

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.file.bytes


@dataclass(frozen=True)
class Version:
    """One version of a table: what it is made of, and which segments that covers."""

    lake: Lake
    table: str
    content: TableVersion

    @cached_property
    def named(self) -> frozenset[str]:
        """The names of all its files."""
        return frozenset(file.name for file in self.content.files)

    @property
    def spelling(self) -> Mapping[str, str]:
        """How the table writes its columns' names, by their lower case."""
        return {fold_case(name): name for name in self.content.columns}

    @cached_property
    def ours(self) -> tuple[HeldFile, ...]:
        """The files that Strata wrote, by what their names say, ascending by block."""
        pairs = ((file, FileName.parse(file.name)) for file in self.content.files)
        files = (HeldFile(file, name) for file, name in pairs if name is not None)
        return tuple(sorted(files, key=lambda lake_file: (lake_file.blocks, lake_file.file.name)))

    @cached_property
    def foreign(self) -> tuple[ActiveFile, ...]:
        """The files that somebody else added."""
        return tuple(file for file in self.content.files if FileName.parse(file.name) is None)

    @property
    def parsed(self) -> tuple[HeldFile, ...]:
        """The files by what their names say, ascending by block.

        Raises `IntegrityError` where one was not written by us.
        """
        self.check_foreign()
        return self.ours

    def check_foreign(self) -> None:
        """Raise `IntegrityError` where a file was not written by us."""
        if self.foreign:
            raise IntegrityError(
                f"{self.lake.place(self.table)} names {self.foreign[0].name}, which Strata did not "
                f"write: strata lake publish --replace REASON --table {self.table} names it no "
                "longer, and adds what is loaded and lacks then"
            )

    @cached_property
    def stored(self) -> StoredLog:
        """What the files of the log say themselves. Raises `IntegrityError` for a damaged one."""
        return self.lake.log(self.table).stored(self.content)

    @cached_property
    def files(self) -> tuple[HeldFile, ...]:
        """The files, ascending by block.

        Raises `IntegrityError` where one was not written by us, or two hold the same blocks.
        """
        for file, other in pairwise(self.parsed):
            if file.blocks.overlaps(other.blocks):
                raise IntegrityError(
                    f"{self.lake.place(self.table)} has blocks {other.blocks} twice, in "
                    f"{file.file.name} and {other.file.name}: strata lake publish --replace REASON "
                    f"--blocks {file.blocks} writes them anew"
                )
        return self.parsed

    def holding(self, blocks: BlockRange) -> list[HeldFile]:
        """The files that hold any of these blocks."""
        start = bisect_left(self.files, blocks.first, key=lambda file: file.blocks.last)
        overlapping = takewhile(
            lambda file: file.blocks.first <= blocks.last, islice(self.files, start, None)
        )
        return list(overlapping)

    def covers(self, blocks: BlockRange) -> bool:
        """Whether files hold all of these blocks."""
        runs = contiguous_runs(file.blocks for file in self.holding(blocks))
        return any(run.holds(blocks) for run in runs)

    def lacks(self, segments: Iterable[BlockRange]) -> list[BlockRange]:
        """Those of the segments (ascending) that no file holds.

        Raises `ConflictError` where a file holds a part of one: it was cut otherwise then.
        """
        missing = []
        files = iter(self.files)
        file = next(files, None)
        for segment in segments:
            while file is not None and file.blocks.last < segment.first:
                file = next(files, None)
            if file is None or not file.blocks.overlaps(segment):
                missing.append(segment)
            elif not (file.blocks.first <= segment.first and segment.last <= file.blocks.last):
                raise ConflictError(
                    f"{self.lake.place(self.table, file.file.name)} ends inside segment {segment}: "
                    "its segments were cut otherwise when it was written; strata lake publish "
                    f"--replace REASON --blocks {file.blocks} writes it anew"
                )
        return missing


class LakeTable:
    """A table of a lake."""

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake = lake
        self._table = table
        self._log = lake.log(table)

    def version(self) -> Version | None:
        """The newest version; None where there is no table."""
        return self._version(self._log.newest())

    def expected(self) -> Version | None:
        """The version upon which a commit is tried first; see `DeltaLog.expected`."""
        return self._version(self._log.expected())

    def recent(self) -> Version | None:
        """The version of the last hour, if this machine knows one; see `DeltaLog.recent`."""
        return self._version(self._log.recent())

    def listed(self, infos: Iterable[ObjectInfo]) -> Version | None:
        """The newest version, where a listing of the table is at hand; see `DeltaLog.listed`."""
        return self._version(self._log.listed(infos))

    def made(self, columns: Sequence[FileColumn]) -> Version:
        """The newest version, of a table that is made where it is not there."""
        version = self.version()
        return version or Version(self._lake, self._table, self._log.create(columns))

    def _version(self, content: TableVersion | None) -> Version | None:
        return Version(self._lake, self._table, content) if content else None

    def upload(self, new: NewFile) -> AddedFile:
        """Put a file where it belongs, whole and proven; it may be moved there.

        Raises `ConflictError` where other bytes lie there.
        """
        name, size = new.name, content_size(new.path)
        self._lake.archive.store.put_if_absent(
            self._lake.key(self._table, name),
            new.path,
            content_type=PARQUET_TYPE,
            sha256=new.sha256,
            immutable=True,
            take=True,
        )
        columns = tuple(column.name for column in (*new.columns, *OWN_COLUMNS))
        return AddedFile(name, size, new.statistics.text, columns)

    def commit(
        self,
        version: Version,
        added: Sequence[AddedFile],
        columns: Iterable[FileColumn],
        removed: Sequence[ActiveFile] = (),
        *,
        changes_data: bool = True,
    ) -> Version:
        """Name files, and name others no longer, upon a version; returns the one that follows.

        `columns` are those that the added files have. Raises `ConflictError` where one has another
        type than the table's, and what `DeltaLog.commit` does.
        """
        lacking = self._lacking(version.content, columns)
        content = version.content
        if lacking:
            content = self._log.add_columns(content, lacking)
            if content.files != version.content.files:
                raise LostRaceError(f"{self._lake.place(self._table)} was changed meanwhile")
        following = self._log.commit(content, added, removed, changes_data=changes_data)
        return Version(self._lake, self._table, following)

    def _lacking(self, content: TableVersion, columns: Iterable[FileColumn]) -> list[FileColumn]:
        """The columns that the table has not. Raises `ConflictError` for one of another type."""
        table_columns = {fold_case(name): (name, kind) for name, kind in content.columns.items()}
        lacking = {}
        for column in columns:
            name, kind = table_columns.get(fold_case(column.name), ("", ""))
            if not name:
                lacking[column.name] = column
            elif kind != column.type:
                raise ConflictError(
                    f"{self._lake.place(self._table)}: column {name} is {kind} there, and "
                    f"{column.type} in what is to be added: nothing is added to this table, as its "
                    "readers would see other values; publish to another place, or without the "
                    "lake (STRATA_LAKE=0)"
                )
        return list(lacking.values())
