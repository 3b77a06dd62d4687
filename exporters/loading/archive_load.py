"""Loading what an archive has into a warehouse: data files as they are, the current state, proven.

What is taken goes by the lake's manifests: a segment that is in one is in the lake whole. A
manifest after the other, the segments of it that are not loaded become a volume each run, which is
added to the warehouse before the next one is fetched: who is killed goes on there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LAKE, LOG, MANIFESTS, STATE_MANIFEST
from exporters.archive.listed_documents import listed_documents
from exporters.archive.sound_documents import INDEX
from exporters.fetching.fetch_folder import Advance, Progress
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import ActiveFile
from exporters.loading.archive_past import (
    ContradictionError,
    check_beside,
    check_past,
    check_same,
)
from transforms.block_range import BlockRange
from transforms.coverage import difference, union
from transforms.errors import ConfigError, IntegrityError, SegmentError
from transforms.lake.intake import take_run, take_state
from transforms.machine_errors import MemoryLimitError
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.segments.inventory import UNKNOWN_SIZE
from transforms.tables.registry import history_tables
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.manifest import manifest_receipts, manifest_segments
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
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

    With `blocks`, only the segments that have any of these, and the one of the current state.
    Files that are not what they should be are in the report, and the rest goes on. Raises
    `ConfigError` where the archive has no lake, or the warehouse another chain; `IntegrityError`
    where the two contradict each other, or the index or the manifests' log is damaged; `BusyError`
    where a document differs from `SHA256SUMS`; errors of the machine.
    """
    backing, newest = warehouse.backing, warehouse.snapshot()
    if newest.chain_id not in ("", archive.chain_id):
        raise ConfigError(
            f"{warehouse.describe()} holds {newest.chain_id}, and {archive.place('')} is of "
            "another chain: give each chain a warehouse of its own"
        )
    index = archive.parse_index(listed_documents(archive)[INDEX])
    sweep_scratch(backing.scratch)
    if newest.number:
        check_past(archive, index, backing.catalog(newest))
    with scratch_folder(backing.scratch) as scratch:
        load = _ArchiveLoad(warehouse, Lake(archive), scratch, blocks)
        report = load.run(progress)
    warehouse.tidy_up()
    return report


@dataclass
class _ArchiveLoad:
    """One load; copies of published files lie below `scratch`."""

    warehouse: Warehouse
    lake: Lake
    scratch: Path
    blocks: BlockRange | None = None
    report: ArchiveLoadReport = field(default_factory=ArchiveLoadReport)

    def run(self, progress: Progress) -> ArchiveLoadReport:
        """See `load_archive`."""
        state = self._state()
        manifests = self.lake.table(MANIFESTS)
        if not manifests.history:
            raise ConfigError(
                f"{self.lake.archive.place(LAKE)} has no manifests that can be read, so no "
                "warehouse can be made of this archive: use one whose publisher has the lake "
                f"(STRATA_LAKE=1), and whose web server shows its folders {LOG}"
            )
        needed = [self.blocks, *([state.blocks] if state else [])] if self.blocks else None
        loaded = union(volume.blocks for volume in self._catalog.snapshot.history)
        due = [
            file
            for file in manifests.history
            if difference((file.blocks,), loaded) and _is_due(file.blocks, needed)
        ]
        with progress("loading", None) as advance:
            for file in due:
                with self._refusing(file.blocks), scratch_folder(self.scratch) as folder:
                    self._load_manifest(manifests.fetch(file, folder), needed, advance)
            catalog = self._catalog
            if state is not None and catalog.holds(state.blocks):
                with self._refusing(state.blocks), scratch_folder(self.scratch) as folder:
                    self._load_state(state, catalog, folder)
        return self.report

    @property
    def _catalog(self) -> Catalog:
        """What the warehouse has and need not be loaded again."""
        backing = self.warehouse.backing
        return backing.catalog(backing.log.begin())

    @contextmanager
    def _refusing(self, blocks: BlockRange) -> Iterator[None]:
        """Let what is damaged, or is not what it should be, be in the report."""
        try:
            yield
        except ContradictionError:
            raise
        except (IntegrityError, SegmentError, MemoryLimitError) as error:
            self.report.not_taken.append(NotTaken(blocks, str(error)))

    def _load_manifest(
        self, manifest: Path, needed: Sequence[BlockRange] | None, advance: Advance
    ) -> None:
        """Load the segments of a manifest that are needed and not loaded."""
        catalog = self._catalog
        published = manifest_segments(manifest)
        due = (segment for segment in published if _is_due(segment.blocks, needed))
        segments = {s.blocks: s for s in due if not catalog.holds(s.blocks)}
        receipts = [r for r in manifest_receipts([manifest]) if r.blocks in segments]
        tables = {*filter(self._is_published, {receipt.table for receipt in receipts})}
        own: dict[BlockRange, list[Receipt]] = {blocks: [] for blocks in segments}
        for receipt in receipts:
            if receipt.table in tables:
                own[receipt.blocks].append(receipt)
        for run in union(segments):
            blocks = [*filter(run.holds, segments)]
            taken = [_taken(segments[item], own[item]) for item in blocks]
            with self._refusing(run):
                self._load_run(run, taken, [r for item in blocks for r in own[item]], advance)

    def _is_published(self, table: str) -> bool:
        """Whether the lake may have a table.

        None has one that its publisher's release did not know. Raises `IntegrityError` for one that
        is there and this release does not know.
        """
        if table in history_tables():
            return True
        if self.lake.table(table).history:
            raise IntegrityError(f"this release knows no table {table}: use a newer one")
        return False

    def _load_run(
        self,
        run: BlockRange,
        segments: Sequence[LoadedSegment],
        receipts: Sequence[Receipt],
        advance: Advance,
    ) -> None:
        check_beside(self.lake.archive, segments, self._catalog)
        with scratch_folder(self.scratch) as folder:
            files = {}
            for name in sorted({receipt.table for receipt in receipts if receipt.rows}):
                table = self.lake.table(name)  # read after the manifests: it has what these have
                its = [file for file in table.history if file.blocks.overlaps(run)]
                files[name] = [table.fetch(file, folder) for file in its]
                advance(sum(file.bytes for file in its))
            take_run(self.warehouse.backing, segments, receipts, files)
        self.report.loaded += segments

    # --- the current state

    def _state(self) -> ActiveFile | None:
        """The manifest of the current state, if that is newer than the warehouse's."""
        try:
            files = self.lake.table(STATE_MANIFEST).files
        except IntegrityError as error:
            _log.warning("no current state is loaded: %s", error)
            return None
        if not files:
            _log.warning(
                "%s has no current state, so the tables of current state stay as they are: its "
                "publisher's strata publish puts it there",
                self.lake.archive.place(LAKE),
            )
            return None
        own = self._catalog.snapshot.states
        return None if own and files[-1].blocks.last <= own[-1].blocks.last else files[-1]

    def _load_state(self, file: ActiveFile, catalog: Catalog, folder: Path) -> None:
        """Load the current state, whose tables have the rows of the manifest's receipts."""
        manifest = self.lake.table(STATE_MANIFEST).fetch(file, folder)
        ids = ((segment.blocks, segment.segment_id) for segment in manifest_segments(manifest))
        check_same(self.lake.archive, ids, catalog)
        tables: dict[str, Path] = {}
        for receipt in manifest_receipts([manifest]):
            table = self.lake.table(receipt.table)
            its = [file for file in table.files if file.csv == receipt.sha256]
            if not its:
                raise IntegrityError(
                    f"{table.place()} has not the current state after segment "
                    f"{file.blocks}, perhaps as it is just being published: run this again later; "
                    "the next segment from a source brings a newer state, too"
                )
            tables[receipt.table] = table.fetch(its[0], folder)
        take_state(self.warehouse.backing, manifest, tables)
        self.report.states.append(file.blocks)


def _is_due(blocks: BlockRange, needed: Sequence[BlockRange] | None) -> bool:
    """Whether any of these blocks is needed; all are, if none are named."""
    return needed is None or any(map(blocks.overlaps, needed))


def _taken(segment: LoadedSegment, receipts: Sequence[Receipt]) -> LoadedSegment:
    """A segment as this warehouse has it: of the file in its own source nothing is known yet."""
    return replace(
        segment,
        info=ObjectInfo(segment.name.file_name, UNKNOWN_SIZE, ""),
        rows=sum(receipt.rows for receipt in receipts),
        bytes=sum(receipt.bytes for receipt in receipts),
        index_id="",
    )
