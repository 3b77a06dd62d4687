"""Putting loaded segments into the lake: each table's files, then the receipts.

Killed anywhere and run again, or run by two at once, every segment is in every table once: what a
table holds is read from the version upon which the commit is made. Receipts come last, so a segment
that has receipts is there whole. A file that was left without a commit is found by its name, if the
same segments come again, and swept after a week otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake_files import Lake
from exporters.lake.new_files import new_file
from exporters.lake.proving import prove_held
from exporters.lake.receipt_file import COLUMNS as RECEIPT_COLUMNS
from exporters.lake.reports import AddedRows, LakeReport, Refused, each_alone
from exporters.lake.tables import HeldFile, LakeTable, NewFile, Version
from exporters.lake.trying import versions
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import BusyError, ConflictError, IntegrityError
from transforms.lake.parquet_rows import LakeRows
from transforms.machine_errors import MemoryLimitError
from transforms.scratch import scratch_folder
from transforms.stores.store import LostRaceError
from transforms.tables.file_columns import OWN_COLUMNS
from transforms.tables.registry import HISTORY_TABLES

_log = logging.getLogger(__name__)
_WORKERS = 4


@dataclass
class LakePublisher:
    """Publishes segments (loaded, ascending, at least one) whose rows and receipts are `rows`."""

    lake: Lake
    rows: LakeRows
    segments: Sequence[BlockRange]
    scratch: Path
    _added_segments: dict[str, set[BlockRange]] = field(default_factory=dict)

    def publish(self, tables: Sequence[str] = HISTORY_TABLES) -> LakeReport:
        """Add what the tables lack of the segments; then the receipts of those that are whole.

        A table to which nothing can be added, for what it holds already, is in the report, and the
        others go on. Errors of the machine end it as they are: run it again.
        """
        with ThreadPoolExecutor(_WORKERS) as pool:
            reports = list(pool.map(self._publish_table, tables))
        report = LakeReport()
        for table_report in reports:
            report = report.and_(table_report)
        if report.refused:
            return report
        return report.and_(each_alone(RECEIPTS, self._publish_receipts))

    def _publish_table(self, table: str) -> LakeReport:
        return each_alone(table, partial(self._add, table, self.segments))

    def _add(self, table: str, segments: Sequence[BlockRange]) -> LakeReport:
        """Write, upload and name what a table lacks; again, where others were faster."""
        own = RECEIPT_COLUMNS if table == RECEIPTS else OWN_COLUMNS
        lake_table = LakeTable(self.lake, table)
        for version in versions(lake_table, is_read=False):
            missing = version.lacks(segments) if version else segments
            if not missing:
                return LakeReport()
            spelling = version.spelling if version else {}
            joined = self._joined(version, missing) if version and table != RECEIPTS else []
            removed = [lake_file.file for _, old in joined for lake_file in old]
            with scratch_folder(self.scratch) as folder:
                files = list(self._new_files(table, missing, joined, folder, spelling))
                added = [lake_table.upload(file) for file in files]
            columns = list(dict.fromkeys(column for file in files for column in file.columns))
            version = version or lake_table.made([*columns, *own])
            if version.lacks(missing) != list(missing):
                continue
            try:
                lake_table.commit(version, added, columns, removed)
            except LostRaceError as error:
                _log.info("%s", error)
                continue
            self._added_segments.setdefault(table, set()).update(missing)
            return LakeReport(
                tuple(
                    AddedRows(table, upload.name, file.blocks, file.statistics.rows, upload.bytes)
                    for upload, file in zip(added, files, strict=True)
                )
            )
        raise BusyError(f"others keep changing {self.lake.place(table)}: try again later")

    def _joined(
        self, version: Version, missing: Sequence[BlockRange]
    ) -> list[tuple[BlockRange, list[HeldFile]]]:
        """The runs of which the warehouse has one file, and the table some segments in others.

        With the missing ones that is all of the run: its file takes the place of the others.
        """
        joined = []
        for run in self.rows.volumes:
            inside = [blocks for blocks in missing if _holds(run, blocks)]
            old = version.holding(run)
            if not (inside and old and all(_holds(run, file.blocks) for file in old)):
                continue
            if [*contiguous_runs(sorted([*inside, *(file.blocks for file in old)]))] == [run]:
                joined.append((run, old))
        return joined

    def _new_files(
        self,
        table: str,
        segments: Sequence[BlockRange],
        joined: Sequence[tuple[BlockRange, Sequence[HeldFile]]],
        folder: Path,
        spelling: Mapping[str, str],
    ) -> Iterator[NewFile]:
        """A file for each run, as the warehouse has it where the whole of one is to be added."""
        whole = [run for run, _ in joined]
        rest = [blocks for blocks in segments if not any(_holds(run, blocks) for run in whole)]
        for run in () if table == RECEIPTS else self.rows.volumes:
            inside = [blocks for blocks in rest if _holds(run, blocks)]
            if [*contiguous_runs(inside)] == [run]:
                whole.append(run)
        for run in sorted(whole):
            place = Path(mkdtemp(dir=folder))
            yield new_file(self.rows, table, run, place, spelling)
        rest = [blocks for blocks in rest if not any(_holds(run, blocks) for run in whole)]
        yield from self._written(table, rest, folder, spelling)

    def _written(
        self,
        table: str,
        segments: Sequence[BlockRange],
        folder: Path,
        spelling: Mapping[str, str],
    ) -> Iterator[NewFile]:
        """A file for each run; for each half of it, where a run takes too much memory at once."""
        for run in contiguous_runs(segments):
            place = Path(mkdtemp(dir=folder))
            try:
                yield new_file(self.rows, table, run, place, spelling)
            except MemoryLimitError:
                of_run = [blocks for blocks in segments if run.first <= blocks.first <= run.last]
                if len(of_run) == 1:
                    raise
                middle = len(of_run) // 2
                for half in (of_run[:middle], of_run[middle:]):
                    yield from self._written(table, half, place, spelling)

    def _publish_receipts(self) -> LakeReport:
        """Add the receipts of the segments that every table has.

        Rows that somebody else put there are proven first: receipts vouch for them.
        """
        version = LakeTable(self.lake, RECEIPTS).version()
        missing = version.lacks(self.segments) if version else list(self.segments)
        if not missing:
            return LakeReport()
        refused = []
        for table in HISTORY_TABLES:
            try:
                missing = self._whole(table, missing)
            except (ConflictError, IntegrityError) as error:
                refused.append(Refused(table, str(error)))
        if refused or not missing:
            return LakeReport(refused=tuple(refused))
        return self._add(RECEIPTS, missing)

    def _whole(self, table: str, segments: Sequence[BlockRange]) -> list[BlockRange]:
        """Those of the segments that a table has; what others put there is proven."""
        own_segments = self._added_segments.get(table, set())
        if own_segments.issuperset(segments):
            return list(segments)
        version = LakeTable(self.lake, table).version()
        absent = frozenset(version.lacks(segments) if version else segments)
        there = [segment for segment in segments if segment not in absent]
        doubtful = [segment for segment in there if segment not in own_segments]
        if version and doubtful:
            prove_held(self.lake, version, self.rows, doubtful, self.scratch)
        return there


def _holds(run: BlockRange, blocks: BlockRange) -> bool:
    return run.first <= blocks.first and blocks.last <= run.last
