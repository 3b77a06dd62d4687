"""What became of the lake's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from exporters.lake.log.table_version import ActiveFile
from transforms.block_range import BlockRange
from transforms.errors import ConflictError, IntegrityError, RangeError


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
    """The files that were added, the tables that were refused, the segments that were.

    `merged` is how many files fewer there are after merging, `replaced` how many were corrected;
    `removed` are the paths, below the chain's folder, of files that no version needs any more.
    """

    added: tuple[AddedRows, ...] = ()
    refused: tuple[Refused, ...] = ()
    refused_segments: tuple[BlockRange, ...] = ()
    merged: int = 0
    replaced: int = 0
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
            (*self.refused_segments, *other.refused_segments),
            self.merged + other.merged,
            self.replaced + other.replaced,
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
