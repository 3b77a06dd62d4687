"""Loading: segments of a source into volumes of the warehouse, the bad ones into quarantine.

A file is unfinished scratch until it is put into the store, and nothing until the log names it.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.errors import SegmentError
from transforms.machine_errors import MemoryLimitError
from transforms.scratch import scratch_folder
from transforms.segments.id_chain import contradiction
from transforms.segments.inventory import Refusal, SegmentFile
from transforms.segments.prepare import PreparedSegment, prepare, prepare_state
from transforms.segments.quarantine import QuarantinedFile, copy_key
from transforms.segments.source import Source
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.load.load_settings import LoadSettings, Progress
from transforms.warehouse.load.table_load import PartSink
from transforms.warehouse.load.volume_storage import store_file, store_volume
from transforms.warehouse.load.volumes import RunFiles, loaded_segment, write_history, write_state
from transforms.warehouse.log.addition import with_added
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadReport:
    """What a load did: a receipt per table and segment, a refusal per segment that failed.

    What another load added in the meantime has no receipt here.

    `volumes` are the keys of the manifests that were added to the warehouse.
    """

    receipts: list[Receipt] = field(default_factory=list)
    failures: list[Refusal] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)


class Loader:
    """Loads segments one contiguous group at a time; each group becomes one volume."""

    def __init__(
        self,
        backing: Backing,
        scratch: Path,
        source: Source,
        sink: PartSink,
        settings: LoadSettings,
        progress: Progress,
    ) -> None:
        self._backing = backing
        self._scratch = scratch
        self._source = source
        self._sink = sink
        self._settings = settings
        self._progress = progress
        self._refused: list[QuarantinedFile] = []
        self._warned: set[str] = set()
        self.report = LoadReport()

    def load(self, files: Sequence[SegmentFile]) -> None:
        """Load segments that ascend and are not in the warehouse yet."""
        group: list[PreparedSegment] = []
        for file in files:
            full = sum(segment.bytes for segment in group) >= self._settings.max_volume_bytes
            if group and (full or not group[-1].blocks.joins(file.blocks)):
                self._load_group(group)
                group = []
            segment = self._prepared(file)
            if segment is None:
                continue
            # Whether the one before it is loaded by then, which is not sure, decides about it.
            if group and self._settings.require_id_chain and _contradictory(group[-1], segment):
                self._load_group(group)
                group = []
            group.append(segment)
        if group:
            self._load_group(group)
        self._backing.log.commit(self._with_refused)

    def _prepared(self, file: SegmentFile) -> PreparedSegment | None:
        folder = self._scratch / file.blocks.key
        try:
            segment = prepare(self._source, file, folder)
            if sentence := segment.index_contradiction:
                self._judge([(segment, sentence)])
        except SegmentError as error:
            self._refuse(file, error, folder / "segment.zip")
            return None
        return segment

    def _judge(self, contradictions: Iterable[tuple[PreparedSegment, str]]) -> None:
        """Warn of contradictions of ids, or raise `SegmentError`, as the setting says."""
        for segment, sentence in contradictions:
            if self._settings.require_id_chain:
                raise SegmentError(sentence, segment.file.name.file_name)
            if sentence not in self._warned:  # a group may be tried again
                self._warned.add(sentence)
                _log.warning(sentence)

    def _newest(self) -> Catalog:
        return self._backing.catalog(self._backing.log.begin())

    def _load_group(self, group: Sequence[PreparedSegment]) -> None:
        """Load a group; where that fails each segment alone, to quarantine those at fault."""
        try:
            self._load_volume(group)
            self._progress(sum(segment.file.info.size for segment in group))
        except (SegmentError, MemoryLimitError) as error:
            if len(group) > 1:
                for segment in group:
                    self._load_group([segment])
            else:
                self._refuse_loaded(group[0], error)
        finally:
            for segment in group:
                shutil.rmtree(segment.zip_path.parent, ignore_errors=True)

    def _refuse_loaded(
        self, segment: PreparedSegment, error: SegmentError | MemoryLimitError
    ) -> None:
        memory_mb = 0
        if isinstance(error, MemoryLimitError):
            memory_mb = self._backing.memory_mb
            error = SegmentError(
                f"{segment.file.info.key} takes more memory to load than a load may use, "
                f"{memory_mb} MB ({error.strerror}): let STRATA_MEMORY_MB be more, and the "
                "next load takes it"
            )
        self._refuse(segment.file, error, segment.zip_path, memory_mb)

    def _load_volume(self, group: Sequence[PreparedSegment]) -> None:
        newest = self._newest()
        self._judge(_contradictions(newest, group))
        write = partial(write_history, segments=group, sink=self._sink)
        receipts, volume = self._built(newest, group, write, self._backing.rendering_limit)
        states = [self._state(newest, segment) for segment in _due_states(newest, group)]
        built = [state for state in states if state is not None]
        catalog = self._commit(group, volume, built)
        segments = catalog.segments_over(BlockRange(group[0].blocks.first, group[-1].blocks.last))
        if any(item.key == volume.key for item in catalog.history()):
            self.report.receipts.extend(receipts)
            self.report.volumes.append(volume.key)
        # Another process may have loaded only some of these segments while we did.
        rest = [segment for segment in group if segment.blocks not in segments]
        for segment in rest:
            _check_free(segment, segments)
        for run in _contiguous(iter(rest)):
            self._load_volume(run)

    def _state(self, newest: Catalog, segment: PreparedSegment) -> Volume | None:
        prepared = prepare_state(segment, segment.zip_path.parent / "state")
        if not prepared.tables:
            return None
        write = partial(write_state, segment=prepared)
        return self._built(newest, [prepared], write, self._backing.memory_limit)[1]

    def _built(
        self,
        newest: Catalog,
        segments: Sequence[PreparedSegment],
        write: Callable[..., tuple[RunFiles, list[Receipt]]],
        limit: str,
    ) -> tuple[list[Receipt], Volume]:
        """Write the files of a volume and put them into the warehouse."""
        with scratch_folder(self._scratch) as scratch:
            run, receipts = write(scratch, settings=self._settings, memory_limit=limit)
            loaded = [loaded_segment(segment, receipts) for segment in segments]
            return receipts, store_volume(self._backing, run, newest.snapshot, loaded, receipts)

    def _commit(
        self, group: Sequence[PreparedSegment], volume: Volume, states: Sequence[Volume]
    ) -> Catalog:
        keys = [segment.file.info.key for segment in group]

        def change(newest: Snapshot) -> Snapshot | None:
            grown = with_added(newest, group[0].file.name.chain_id, volume, states)
            # Others loaded these segments: what was refused meanwhile is still to be kept.
            return grown.quarantined(self._refused, keys) if grown else self._with_refused(newest)

        snapshot = self._backing.log.commit(change)
        self._refused.clear()
        return self._backing.catalog(snapshot)

    def _with_refused(self, newest: Snapshot) -> Snapshot | None:
        return newest.quarantined(self._refused, ()) if self._refused else None

    def _refuse(
        self, file: SegmentFile, error: SegmentError, copy: Path, memory_mb: int = 0
    ) -> None:
        self._sink.forget(file.name)
        refusal = Refusal(file.info, str(error))
        stored = None
        if copy.exists():
            sha256 = content_sha256(copy)
            key = copy_key(file.info.key, sha256)
            stored = store_file(self._backing.store, key, sha256, copy)
        self._refused.append(QuarantinedFile(refusal, stored, memory_mb))
        self.report.failures.append(refusal)
        self._progress(file.info.size)


def _due_states(newest: Catalog, group: Sequence[PreparedSegment]) -> Iterator[PreparedSegment]:
    """The last segment of each schema version in the group, unless a later one is loaded."""
    blocks = {state.version: state.blocks for state in newest.states()}
    for version, segment in {segment.file.name.version: segment for segment in group}.items():
        if version not in blocks or blocks[version] < segment.blocks:
            yield segment


def _contradictory(before: PreparedSegment, segment: PreparedSegment) -> bool:
    return contradiction(before.id_run, segment.id_run) is not None


def _contradictions(
    newest: Catalog, group: Sequence[PreparedSegment]
) -> Iterator[tuple[PreparedSegment, str]]:
    """Neighbours in a contiguous group, or of it, of which the second was not made after the first.

    Nothing says which of the two is wrong: what is loaded stays, the newcomer is the one named.
    """
    earlier = newest.segment_at(group[0].blocks.first - 1)
    before = [earlier.id_run] if earlier else []
    for segment in group:
        if before and (conflict := contradiction(before[0], segment.id_run)):
            yield segment, str(conflict)
        before = [segment.id_run]
    later = newest.segment_at(group[-1].blocks.last + 1)
    if later and (conflict := contradiction(before[0], later.id_run)):
        yield group[-1], str(conflict)


def _check_free(segment: PreparedSegment, segments: Mapping[BlockRange, LoadedSegment]) -> None:
    """Raise `SegmentError` where a loaded segment covers some of the same blocks."""
    for blocks, other in segments.items():
        if blocks.overlaps(segment.blocks):
            raise SegmentError(
                f"{segment.file.info.key} covers blocks that {other.name.file_name}, loaded in the "
                "meantime, covers too: remove the one that is wrong",
                segment.file.name.file_name,
            )


def _contiguous(segments: Iterator[PreparedSegment]) -> Iterator[list[PreparedSegment]]:
    group: list[PreparedSegment] = []
    for segment in segments:
        if group and not group[-1].blocks.joins(segment.blocks):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group
