"""Putting loaded segments into the lake: each table's files, then the receipts.

Killed anywhere and run again, or run by two at once, every segment is in every table once: what a
table holds is read from the version upon which the commit is made. Receipts come last, so a segment
that has receipts is there whole. A file that was left without a commit is found by its name, if the
same data file comes again, and swept after a week otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp

from exporters.archive.archive import won_race
from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake_files import Lake
from exporters.lake.new_files import NewFile, new_file
from exporters.lake.proving import prove_held
from exporters.lake.receipt_file import COLUMNS as RECEIPT_COLUMNS
from exporters.lake.reports import AddedRows, LakeReport, Refused, each_alone
from exporters.lake.tables import HeldFile, LakeTable, Version
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import ConflictError, IntegrityError
from transforms.lake.parquet_rows import LakeRows
from transforms.machine_errors import MemoryLimitError
from transforms.scratch import scratch_folder
from transforms.stores.store import LostRaceError, asked_together
from transforms.tables.file_columns import OWN_COLUMNS

_WORKERS = 4


@dataclass(frozen=True, slots=True)
class _Run:
    """Blocks of which a file is made, the segments with rows that a table lacks, the old files."""

    blocks: BlockRange
    segments: tuple[BlockRange, ...]
    old: tuple[HeldFile, ...] = ()


@dataclass
class LakePublisher:
    """Publishes segments (loaded, ascending, at least one), whose volumes `rows` has.

    The file of a volume is the warehouse's data file, where all of its segments that have rows are
    published; it takes the place of the files that hold some of them.
    """

    lake: Lake
    rows: LakeRows
    segments: Sequence[BlockRange]
    scratch: Path
    _added_segments: dict[str, set[BlockRange]] = field(default_factory=dict)

    def publish(self, tables: Collection[str] = ()) -> LakeReport:
        """Add what tables (none: all) lack of the segments; then the receipts of those in all.

        A table to which nothing can be added, for what it holds already, is in the report, and the
        others go on. Errors of the machine end it as they are: run it again.
        """
        report, names = LakeReport(), tables or self.rows.tables
        store = self.lake.archive.store
        for table_report in asked_together(store, self._publish_table, names, _WORKERS):
            report = report.and_(table_report)
        if report.refused:
            return report
        return report.and_(each_alone(RECEIPTS, self._publish_receipts))

    def _publish_table(self, table: str) -> LakeReport:
        chosen = frozenset(self.segments)
        segments = [segment for segment in self.rows.segments(table) if segment in chosen]
        return each_alone(table, partial(self._add, table, segments))

    def _add(self, table: str, segments: Sequence[BlockRange]) -> LakeReport:
        """Write, upload and name what a table lacks; again, where others were faster."""
        return won_race(partial(self._add_once, table, segments), self.lake.place(table))

    def _add_once(self, table: str, segments: Sequence[BlockRange]) -> LakeReport:
        own = RECEIPT_COLUMNS if table == RECEIPTS else OWN_COLUMNS
        lake_table = LakeTable(self.lake, table)
        version = lake_table.expected()
        runs = self._runs(table, segments, version)
        if not runs:
            return LakeReport()
        spelling = version.spelling if version else {}
        with scratch_folder(self.scratch) as folder:
            files = [*chain(*(self._files(table, run, folder, spelling) for run in runs))]
            added = [lake_table.upload(file) for file in files]
        columns = list(dict.fromkeys(column for file in files for column in file.columns))
        version = version or lake_table.made([*columns, *own])
        if self._runs(table, segments, version) != runs:
            raise LostRaceError(f"{self.lake.place(table)} was made by another writer")
        old = [lake_file.file for run in runs for lake_file in run.old]
        old += [lake_file.file for lake_file in self._states(version)]
        lake_table.commit(version, added, columns, old)
        self._added_segments.setdefault(table, set()).update(*(run.segments for run in runs))
        return LakeReport(
            tuple(
                AddedRows(table, upload.name, file.blocks, file.statistics.rows, upload.bytes)
                for upload, file in zip(added, files, strict=True)
            )
        )

    def _states(self, version: Version) -> list[HeldFile]:
        """Copies of a table that was current state, of which there is history now."""
        end = self.rows.state_ends.get(version.table, -1)
        return [lake_file for lake_file in version.files if lake_file.blocks.last <= end]

    def _runs(
        self, table: str, segments: Sequence[BlockRange], version: Version | None
    ) -> list[_Run]:
        """What a table lacks of segments in which it has rows: as data files where they are whole.

        Raises `ConflictError` where a file of the table holds a part of a segment.
        """
        missing = version.lacks(segments) if version else [*segments]
        if table == RECEIPTS:
            return [*_parts(missing)]
        runs: list[_Run] = []
        for volume in self.rows.volumes if missing else ():
            lacking = [segment for segment in missing if volume.blocks.holds(segment)]
            old = version.holding(volume.blocks) if version and lacking else []
            absent = frozenset(lacking)
            with_rows = filter(volume.blocks.holds, self.rows.segments(table))
            others = [segment for segment in with_rows if segment not in absent]
            is_whole = all(volume.blocks.holds(lake_file.blocks) for lake_file in old) and all(
                any(lake_file.blocks.holds(segment) for lake_file in old) for segment in others
            )
            if is_whole and lacking:
                runs.append(_Run(volume.blocks, tuple(lacking), tuple(old)))
            else:
                runs += _parts(lacking)
        return runs

    def _files(
        self, table: str, run: _Run, folder: Path, spelling: Mapping[str, str]
    ) -> Iterator[NewFile]:
        """The file of a run; of each half of it, where it takes too much memory at once."""
        try:
            yield new_file(self.rows, table, run.blocks, Path(mkdtemp(dir=folder)), spelling)
        except MemoryLimitError:
            if run.old or len(run.segments) == 1:
                raise
            middle = len(run.segments) // 2
            for half in (*_parts(run.segments[:middle]), *_parts(run.segments[middle:])):
                yield from self._files(table, half, folder, spelling)

    def _publish_receipts(self) -> LakeReport:
        """Add the receipts of the segments that every table has.

        Rows that somebody else put there are proven first: receipts vouch for them.
        """
        version = LakeTable(self.lake, RECEIPTS).expected()
        missing = version.lacks(self.segments) if version else list(self.segments)
        if not missing:
            return LakeReport()
        refused = []
        for table in self.rows.tables:
            try:
                missing = self._whole(table, missing)
            except (ConflictError, IntegrityError) as error:
                refused.append(Refused(table, str(error)))
        if refused or not missing:
            return LakeReport(refused=tuple(refused))
        return self._add(RECEIPTS, missing)

    def _whole(self, table: str, segments: Sequence[BlockRange]) -> list[BlockRange]:
        """Those of the segments whose rows a table has; what others put there is proven."""
        due = self._added_segments.get(table, set())
        with_rows = frozenset(self.rows.segments(table))
        doubtful = [s for s in segments if s in with_rows and s not in due]
        if not doubtful:
            return list(segments)
        version = LakeTable(self.lake, table).version()
        absent = frozenset(version.lacks(doubtful) if version else doubtful)
        there = [segment for segment in doubtful if segment not in absent]
        if version and there:
            prove_held(version, self.rows, there, self.scratch)
        return [segment for segment in segments if segment not in absent]


def _parts(segments: Sequence[BlockRange]) -> Iterator[_Run]:
    """The segments (ascending) in runs without a gap."""
    for blocks in contiguous_runs(segments):
        yield _Run(blocks, tuple(filter(blocks.holds, segments)))
