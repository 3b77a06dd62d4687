"""Loading what an archive has into a warehouse: data files as they are, current states, all proven.

What is taken goes by the lake's manifests: a segment that is in one is in the lake whole. A
manifest after the other, the segments of it that are not loaded become a volume each run, which is
added to the warehouse before the next one is fetched: who is killed goes on there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import MANIFESTS
from exporters.fetching.fetch_folder import Advance, Progress
from exporters.fetching.past import PastChangedError
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.published_files import PublishedFiles, retried
from exporters.lake.state_files import StateFile, fetch_state_file, state_files
from exporters.loading.archive_past import check_beside, check_index, check_past
from transforms.block_range import BlockRange, contiguous_runs
from transforms.coverage import difference, union
from transforms.errors import ConfigError, IntegrityError, SegmentError
from transforms.lake.intake import take_run, take_state
from transforms.machine_errors import MemoryLimitError
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.segments.inventory import UNKNOWN_SIZE
from transforms.tables.registry import history_tables
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.manifest import manifest_receipts, read_columns
from transforms.warehouse.manifests.manifest_rows import SEGMENTS, parse_segments
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.repair.older_log import check_not_older
from transforms.warehouse.warehouse import Warehouse

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotTaken:
    """Blocks of an archive that were not loaded, and why."""

    blocks: BlockRange
    reason: str


@dataclass(slots=True)
class ArchiveLoadReport:
    """What came of it: the segments, the current states that were loaded, and what could not be."""

    loaded: list[LoadedSegment] = field(default_factory=list)
    states: list[BlockRange] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)


def load_archive(
    warehouse: Warehouse, archive: Archive, progress: Progress, blocks: BlockRange | None = None
) -> ArchiveLoadReport:
    """Load what the archive has and the warehouse has not; run again, it goes on.

    With `blocks`, only the segments that have any of these, and those that current states are of.
    Files that are not what they should be are in the report, and the rest goes on. Raises
    `ConfigError` where the archive has no lake, or the warehouse another chain; `PastChangedError`
    where the two contradict each other; `IntegrityError` where the index or the manifests' log is
    damaged; errors of the machine.
    """
    backing, newest = warehouse.backing, warehouse.snapshot()
    if newest and newest.chain_id not in ("", archive.chain_id):
        raise ConfigError(
            f"{warehouse.describe()} holds {newest.chain_id}, and {archive.place('')} is of "
            "another chain: give each chain a warehouse of its own"
        )
    sweep_scratch(backing.scratch)
    check_not_older(backing, newest)
    if newest:
        check_past(archive, backing.catalog(newest).intact())
    with scratch_folder(backing.scratch) as scratch:
        load = _ArchiveLoad(warehouse, Lake(archive), scratch, blocks)
        report = load.run(progress)
    warehouse.tidy_up()
    return report


@dataclass
class _ArchiveLoad:
    """One load; copies of published files lie in `scratch`."""

    warehouse: Warehouse
    lake: Lake
    scratch: Path
    blocks: BlockRange | None = None
    report: ArchiveLoadReport = field(default_factory=ArchiveLoadReport)

    def run(self, progress: Progress) -> ArchiveLoadReport:
        """See `load_archive`."""
        if not self._manifests.files:
            raise ConfigError(
                f"{self.lake.place('')} has no manifests, so no warehouse can be made of this "
                "archive: fetch one whose publisher has the lake (STRATA_LAKE=1)"
            )
        loaded = union(volume.blocks for volume in self._catalog.history())
        lacking = (file for file in self._manifests.files if difference((file.blocks,), loaded))
        due = [file for file in lacking if self._is_due(file.blocks)]
        with progress("loading", self._total([file.blocks for file in due])) as advance:
            for files in self._tables.values():
                files.advance = advance
            for file in due:
                self._load_manifest(file)
            for state in self._states:
                self._load_state(state, advance)
        return self.report

    @cached_property
    def _manifests(self) -> PublishedFiles:
        return PublishedFiles(self.lake, MANIFESTS, self.scratch)

    @cached_property
    def _tables(self) -> dict[str, PublishedFiles]:
        """Read after the manifests: what these have is in them."""
        return {table: PublishedFiles(self.lake, table, self.scratch) for table in history_tables()}

    @property
    def _catalog(self) -> Catalog:
        """What the warehouse has and need not be loaded again."""
        backing = self.warehouse.backing
        return backing.catalog(backing.log.begin()).intact()

    def _is_due(self, blocks: BlockRange) -> bool:
        """Whether any of these blocks should be loaded."""
        if self.blocks is None or blocks.overlaps(self.blocks):
            return True
        return any(blocks.overlaps(state.blocks) for state in self._states)

    def _total(self, due: Sequence[BlockRange]) -> int:
        """The bytes of the files that hold these blocks, and of states that are due."""
        states = sum(state.bytes for state in self._states)
        return states + sum(
            file.bytes
            for table in self._tables.values()
            for file in self._readable(table)
            if any(map(file.blocks.overlaps, due))
        )

    @cached_property
    def _states(self) -> tuple[StateFile, ...]:
        """The current states that are newer than those of the warehouse."""
        own = {state.version: state.blocks for state in self._catalog.states()}
        try:
            states = state_files(self.lake.archive)
        except IntegrityError as error:
            _log.warning("no current state is loaded: %s", error)
            return ()
        if not states:
            _log.warning(
                "%s has no current states, so the tables of current state stay as they are: its "
                "publisher's strata publish puts them there",
                self.lake.place(""),
            )
        return tuple(s for s in states if s.version not in own or own[s.version] < s.blocks)

    def _load_state(self, state: StateFile, advance: Advance) -> None:
        """Load a current state, unless its segment is not loaded, for whatever reason."""
        if not self._catalog.holds(state.blocks):
            return
        paths = [self.scratch / Path(file.key).name for file in state.files]
        try:
            for file, path in zip(state.files, paths, strict=True):
                retried(partial(fetch_state_file, self.lake.archive, file, path))
            take_state(self.warehouse.backing, *paths)
        except IntegrityError as error:
            self.report.not_taken.append(NotTaken(state.blocks, str(error)))
        else:
            self.report.states.append(state.blocks)
            advance(state.bytes)

    def _readable(self, table: PublishedFiles) -> Sequence[ActiveFile]:
        try:
            return table.files
        except IntegrityError:
            return ()  # said of each run that has rows of it

    def _load_manifest(self, file: ActiveFile) -> None:
        """Load the segments of a manifest that are not loaded."""
        try:
            (copy,) = self._manifests.copies(file.blocks)
            catalog = self._catalog
            published = parse_segments(read_columns(copy, SEGMENTS.names))
            due = (segment for segment in published if self._is_due(segment.blocks))
            segments = {s.blocks: s for s in due if not catalog.holds(s.blocks)}
            receipts = [r for r in manifest_receipts([copy]) if r.blocks in segments]
            tables = {*filter(self._is_published, {receipt.table for receipt in receipts})}
        except IntegrityError as error:
            self.report.not_taken.append(NotTaken(file.blocks, str(error)))
            return
        own: dict[BlockRange, list[Receipt]] = {blocks: [] for blocks in segments}
        for receipt in receipts:
            if receipt.table in tables:
                own[receipt.blocks].append(receipt)
        for run in contiguous_runs(segments):
            blocks = [*filter(run.holds, segments)]
            taken = [_taken(segments[item], own[item]) for item in blocks]
            self._load_run(run, taken, [receipt for item in blocks for receipt in own[item]])

    def _is_published(self, table: str) -> bool:
        """Whether the lake may have a table.

        None has one that its publisher's release did not know. Raises `IntegrityError` for one that
        is there and this release does not know.
        """
        if table in self._tables:
            return True
        if PublishedFiles(self.lake, table, self.scratch).files:
            raise IntegrityError(f"this release knows no table {table}: use a newer one")
        return False

    def _load_run(
        self, run: BlockRange, segments: Sequence[LoadedSegment], receipts: Sequence[Receipt]
    ) -> None:
        try:
            check_index(self.lake.archive, segments, receipts)
            check_beside(self.lake.archive, segments, self._catalog)
            files = {
                table: self._tables[table].copies(run)
                for table in sorted({receipt.table for receipt in receipts if receipt.rows})
            }
            take_run(self.warehouse.backing, segments, receipts, files)
            self.report.loaded += segments
        except PastChangedError:
            raise
        except (IntegrityError, SegmentError, MemoryLimitError) as error:
            self.report.not_taken.append(NotTaken(run, str(error)))


def _taken(segment: LoadedSegment, receipts: Sequence[Receipt]) -> LoadedSegment:
    """A segment as this warehouse has it: of the file in its own source nothing is known yet."""
    return replace(
        segment,
        info=ObjectInfo(segment.name.file_name, UNKNOWN_SIZE, ""),
        rows=sum(receipt.rows for receipt in receipts),
        bytes=sum(receipt.bytes for receipt in receipts),
        index_id="",
    )
