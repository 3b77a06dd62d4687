"""Loading: segments of a source into volumes of the warehouse, the bad ones into quarantine.

A file is unfinished scratch until it is put into the store, and nothing until the log names it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck_errors import ABOUT_DATA, reason
from transforms.errors import SegmentError, UnreadableObjectError
from transforms.machine_errors import MemoryLimitError
from transforms.segments.id_chain import id_chain
from transforms.segments.inventory import SegmentFile
from transforms.segments.prepare import PreparedSegment, prepare, prepare_state
from transforms.segments.quarantine import QuarantinedFile, copy_key
from transforms.segments.source import Source
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.load.segment_checks import foreign_rows
from transforms.warehouse.load.table_load import PartSink
from transforms.warehouse.load.volume_files import store_file, store_volume, write_tables
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.receipts import LoadedSegment
from transforms.warehouse.manifests.shapes import Volume

VOLUME_BYTES = 2 * 2**30
"""CSV bytes from which on a volume takes no further segment."""


@dataclass(slots=True)
class LoadReport:
    """What a load did: the segments that it added, and a refused file per segment that failed.

    `unreadable` gives the reason for each file that the source did not give, by key. What another
    load added in the meantime is none of these.
    """

    loaded: list[BlockRange] = field(default_factory=list)
    failures: list[QuarantinedFile] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads segments one contiguous group at a time; each group becomes one volume."""

    backing: Backing
    scratch: Path
    source: Source
    sink: PartSink
    progress: Callable[[int], None]
    requires_id_chain: bool = False
    report: LoadReport = field(default_factory=LoadReport)

    def load(self, files: Sequence[SegmentFile]) -> None:
        """Load segments that ascend and are not in the warehouse yet."""
        group: list[PreparedSegment] = []
        size = 0
        for file in files:
            is_full = size >= VOLUME_BYTES
            if group and (is_full or not group[-1].blocks.joins(file.blocks)):
                self._load_group(group)
                group, size = [], 0
            folder = self.scratch / file.blocks.key
            try:
                group.append(prepare(self.source, file, folder))
                size += group[-1].bytes
            except SegmentError as error:
                self._refuse(file, error, folder / "segment.zip")
            except UnreadableObjectError as error:
                self.report.unreadable[file.info.key] = str(error)
                self.progress(file.info.size)
        if group:
            self._load_group(group)
        if self.report.failures:
            self.backing.log.commit(lambda newest: newest.quarantined(self.report.failures, ()))

    def _load_group(self, group: Sequence[PreparedSegment]) -> None:
        """Load a group; where that fails each segment alone, to quarantine those at fault."""
        try:
            self._load_volume(group)
            self.progress(sum(segment.file.info.size for segment in group))
        except (SegmentError, MemoryLimitError) as error:
            if len(group) > 1:
                for segment in group:
                    self._load_group([segment])
            else:
                self._refuse(group[0].file, error, group[0].zip_path)
        finally:
            for segment in group:
                shutil.rmtree(segment.zip_path.parent, ignore_errors=True)

    def _load_volume(self, group: Sequence[PreparedSegment]) -> None:
        base = self.backing.log.begin()
        if self.requires_id_chain:
            _check_ids(self.backing.catalog(base), group)
        volume = self._stored(base, group, self.sink)
        states = []
        for segment in _due_states(base, group):
            dumped = prepare_state(segment, segment.zip_path.parent / "state")
            if dumped.tables:
                states.append(self._stored(base, [dumped], None))
        chain_id, keys = group[0].file.name.chain_id, [each.file.info.key for each in group]
        snapshot = self.backing.log.commit(
            lambda newest: newest.with_added(chain_id, [volume, *states]).quarantined((), keys)
        )
        if any(other.key == volume.key for other in snapshot.volumes):
            self.report.loaded += [segment.blocks for segment in group]
            return
        # Another process loaded some of these segments while we did.
        catalog = self.backing.catalog(snapshot)
        for segment in group:
            if catalog.holds(segment.blocks):
                continue
            for other in catalog.segments(segment.blocks):
                raise SegmentError(
                    f"{segment.file.info.key} covers blocks that {other.name.file_name}, "
                    "loaded in the meantime, covers too: remove the one that is wrong"
                )
            self._load_volume([segment])

    def _stored(
        self, base: Snapshot, segments: Sequence[PreparedSegment], sink: PartSink | None
    ) -> Volume:
        """Write the files of a volume, see `write_tables`, and put them into the warehouse."""
        size = sum(segment.bytes for segment in segments)
        try:
            with self.backing.working(size) as (con, scratch):
                data, receipts = write_tables(con, scratch, segments, sink)
                foreign = foreign_rows(con, data, receipts)
                loaded = [
                    replace(_loaded(segment), foreign_rows=foreign[segment.blocks.first])
                    for segment in segments
                ]
                return store_volume(self.backing, con, base, data, loaded, receipts)
        except ABOUT_DATA as error:
            names = ", ".join(segment.file.name.file_name for segment in segments)
            what = f"{names} cannot be loaded: DuckDB says {reason(error)}"
            raise SegmentError(f"{what}: report it, with the segment") from error

    def _refuse(
        self, file: SegmentFile, error: SegmentError | MemoryLimitError, copy: Path
    ) -> None:
        why, memory_mb = str(error), 0
        if isinstance(error, MemoryLimitError):
            memory_mb = self.backing.memory_mb
            why = (
                f"{file.info.key} takes more memory to load than a load may use, {memory_mb} MB "
                f"({error.strerror}): let STRATA_MEMORY_MB be more, and the next load takes it"
            )
        stored = None
        if copy.exists():
            sha256 = content_sha256(copy)
            key = copy_key(file.info.key, sha256)
            stored = store_file(self.backing.store, key, sha256, copy)
        refused = QuarantinedFile(file.info, why, stored, memory_mb)
        self.report.failures.append(refused)
        self.progress(file.info.size)


def _check_ids(catalog: Catalog, group: Sequence[PreparedSegment]) -> None:
    """Raise `SegmentError` where a segment was not made after the one before it (decision 29)."""
    before = catalog.segment_at(group[0].blocks.first - 1)
    after = catalog.segment_at(group[-1].blocks.last + 1)
    segments = (before, *map(_loaded, group), after)
    for conflict in id_chain(each.id_run for each in segments if each).contradictions:
        raise SegmentError(str(conflict))


def _due_states(base: Snapshot, group: Sequence[PreparedSegment]) -> Iterator[PreparedSegment]:
    """The last segment of each schema version in the group, unless a later one is loaded."""
    blocks = {state.version: state.blocks for state in base.states}
    for version, segment in {segment.file.name.version: segment for segment in group}.items():
        if version not in blocks or blocks[version] < segment.blocks:
            yield segment


def _loaded(segment: PreparedSegment) -> LoadedSegment:
    """The record of a segment whose tables were all loaded."""
    return LoadedSegment(
        segment.file.name,
        segment.file.info,
        segment.file.index_id,
        segment.sha256,
        segment.segment_id,
        segment.previous_id,
        sum(table.rows for table in segment.tables.values()),
        segment.bytes,
    )
