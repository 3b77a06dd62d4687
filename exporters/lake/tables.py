"""One table of the lake: which blocks it has, putting files into it, and what became of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from exporters.archive.lake_place import LOG
from exporters.lake.lake_files import PARQUET_TYPE, Lake
from exporters.lake.log.table_version import ActiveFile, FileName, TableVersion
from transforms.block_range import BlockRange
from transforms.coverage import inside, union
from transforms.errors import ConflictError, IntegrityError, RangeError
from transforms.lake.statistics import Statistics
from transforms.objects import ObjectInfo
from transforms.stores.store import content_size
from transforms.tables.file_columns import FileColumn
from transforms.tables.registry import fold_case


@dataclass(frozen=True, slots=True)
class Refused:
    """A table to which nothing was added, and why."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class AddedRows:
    """A file that was put into a table: its name, its blocks, its rows and bytes."""

    table: str
    name: str
    blocks: BlockRange
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LakeReport:
    """The files that were added, the tables and segments that were refused.

    `removed` are the paths, below the chain's folder, of files that no version needs any more.
    """

    added: tuple[AddedRows, ...] = ()
    refused: tuple[Refused, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The bytes of the added files."""
        return sum(rows.bytes for rows in self.added)

    def and_(self, other: LakeReport) -> LakeReport:
        """Both together."""
        return LakeReport(
            (*self.added, *other.added),
            tuple(dict.fromkeys((*self.refused, *other.refused))),
            (*self.removed, *other.removed),
        )


def each_alone(table: str, work: Callable[[], LakeReport]) -> LakeReport:
    """What came of the work on a table; why it cannot be done is in the report.

    Errors of the machine pass through.
    """
    try:
        return work()
    except (ConflictError, IntegrityError, RangeError) as error:
        return LakeReport(refused=(Refused(table, str(error)),))


def added_report(table: str, added: Iterable[ActiveFile]) -> LakeReport:
    """The report of files that were put into a table."""
    files = (AddedRows(table, file.name, file.blocks, file.rows, file.bytes) for file in added)
    return LakeReport(tuple(files))


@dataclass(frozen=True, slots=True)
class NewFile:
    """A finished file that is to be put into a table, with its SHA-256 and all its columns.

    See `FileName` for `csv`.
    """

    path: Path
    blocks: BlockRange
    sha256: str
    statistics: Statistics
    columns: Sequence[FileColumn]
    csv: str = ""

    @property
    def name(self) -> str:
        """What it is called in its table."""
        return str(FileName.of(self.blocks, self.sha256, self.csv))


@dataclass(frozen=True)
class Version:
    """One version of a table: what it is made of, and which segments that covers."""

    lake: Lake
    table: str
    content: TableVersion

    @cached_property
    def named(self) -> frozenset[str]:
        """The names of all its files."""
        return frozenset(self.content.added)

    @cached_property
    def ours(self) -> tuple[ActiveFile, ...]:
        """The files that Strata wrote, ascending by block."""
        files = (file for file in self.content.files if file.parsed)
        return tuple(sorted(files, key=lambda file: (file.blocks, file.name)))

    @cached_property
    def foreign(self) -> tuple[ActiveFile, ...]:
        """The files that somebody else added."""
        return tuple(file for file in self.content.files if not file.parsed)

    def check_foreign(self) -> None:
        """Raise `IntegrityError` where a file was not written by us."""
        if self.foreign:
            raise IntegrityError(
                f"{self.lake.place(self.table)} names {self.foreign[0].name}, which Strata did not "
                f"write: {self._remedy}"
            )

    @property
    def _remedy(self) -> str:
        return f"remove its folder {LOG}, and strata publish makes it anew"

    @cached_property
    def files(self) -> tuple[ActiveFile, ...]:
        """The files, ascending by block.

        Raises `IntegrityError` where one was not written by us, or two hold the same blocks.
        """
        self.check_foreign()
        for file, other in pairwise(self.ours):
            if file.blocks.overlaps(other.blocks):
                raise IntegrityError(
                    f"{self.lake.place(self.table)} has blocks {other.blocks} twice, in "
                    f"{file.name} and {other.name}: {self._remedy}"
                )
        return self.ours

    def lacks(self, segments: Sequence[BlockRange]) -> list[BlockRange]:
        """Those of the segments (ascending) that are not whole in its files."""
        there = frozenset(inside(segments, union(file.blocks for file in self.files)))
        return [segment for segment in segments if segment not in there]


class LakeTable:
    """A table of a lake."""

    def __init__(self, lake: Lake, table: str) -> None:
        self.lake = lake
        self._table = table
        self._log = lake.log(table)

    def version(self) -> Version | None:
        """The newest version; None where there is no table."""
        return self._version(self._log.newest())

    def expected(self) -> Version | None:
        """The version upon which a commit is tried first; see `DeltaLog.expected`."""
        return self._version(self._log.expected())

    def listed(self, infos: Iterable[ObjectInfo]) -> Version | None:
        """The newest version, where a listing of the table is at hand; see `DeltaLog.listed`."""
        return self._version(self._log.listed(infos))

    def _version(self, content: TableVersion | None) -> Version | None:
        return Version(self.lake, self._table, content) if content else None

    def put(
        self,
        version: Version | None,
        new: Iterable[NewFile],
        removed: Sequence[ActiveFile] = (),
    ) -> tuple[ActiveFile, ...]:
        """Put files there, and name them, and others no longer, upon a version; the new ones.

        Without a version the table is made. Raises `ConflictError` where a column has another type
        or spelling than the table's, or other bytes lie under a file's name, and what
        `DeltaLog.commit` does.
        """
        content = version.content if version else None
        fields = content.fields if content else []
        known = {fold_case(field["name"]): (field["name"], field["type"]) for field in fields}
        columns: list[FileColumn] = []
        added = []
        for file in new:
            columns += self._new_columns(file, known)
            added.append(self._upload(file))
        self._log.commit(content, added, removed, columns)
        return tuple(added)

    def _upload(self, new: NewFile) -> ActiveFile:
        """Put a file where it belongs, whole and proven; it may be moved there."""
        name, size = new.name, content_size(new.path)
        self.lake.archive.store.put_if_absent(
            self.lake.key(self._table, name),
            new.path,
            content_type=PARQUET_TYPE,
            sha256=new.sha256,
            immutable=True,
            take=True,
        )
        names = tuple(column.name for column in new.columns)
        return ActiveFile(name, size, new.statistics.text, names)

    def _new_columns(
        self, file: NewFile, known: dict[str, tuple[str, object]]
    ) -> Iterator[FileColumn]:
        """The columns that are not known yet, by name in lower case; they are from then on.

        Raises `ConflictError` for one that is known otherwise.
        """
        for column in file.columns:
            if fold_case(column.name) not in known:
                known[fold_case(column.name)] = column.name, column.type
                yield column
            name, kind = known[fold_case(column.name)]
            if name != column.name or (isinstance(kind, str) and kind != column.type):
                raise ConflictError(
                    f"{self.lake.place(self._table)}: column {name} is {kind} there, and "
                    f"{column.name} is {column.type} in what is to be added: nothing is added to "
                    "this table, as its readers would see other values; publish to another place, "
                    "or without the lake (STRATA_LAKE=0)"
                )
