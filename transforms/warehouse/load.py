"""Loading: segments of a source into volumes of the warehouse, the bad ones into quarantine.

Until a finished file is renamed into place there is only scratch; the catalog names it last.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transforms.blocks import BlockRange
from transforms.errors import SegmentError
from transforms.files import commit_file
from transforms.segments.inventory import Refusal, SegmentFile
from transforms.segments.prepare import PreparedSegment, PreviousId, prepare, prepare_state
from transforms.segments.quarantine import Quarantine
from transforms.segments.source import Source
from transforms.warehouse.catalog import Catalog, advance, read_catalog
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.shapes import Volume
from transforms.warehouse.table_load import PartSink
from transforms.warehouse.volumes import (
    LoadSettings,
    Progress,
    build_volume,
    loaded_segment,
    volume_name,
)


@dataclass(slots=True)
class LoadReport:
    """What a load did: a receipt per table and segment, a refusal per segment that failed."""

    receipts: list[Receipt] = field(default_factory=list)
    failures: list[Refusal] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)


class Loader:
    """Loads segments one contiguous group at a time; each group becomes one volume."""

    def __init__(
        self,
        root: Path,
        scratch: Path,
        source: Source,
        sink: PartSink,
        settings: LoadSettings,
        progress: Progress,
    ) -> None:
        self._root = root
        self._scratch = scratch
        self._source = source
        self._sink = sink
        self._settings = settings
        self._progress = progress
        self._quarantine = Quarantine(root / "quarantine")
        self.report = LoadReport()

    def load(self, files: Sequence[SegmentFile]) -> None:
        """Load segments that ascend and are not in the catalog yet."""
        previous_id = _previous_ids(files, read_catalog(self._root))
        group: list[PreparedSegment] = []
        for file in files:
            full = sum(segment.bytes for segment in group) >= self._settings.max_volume_bytes
            if group and (full or not group[-1].blocks.joins(file.blocks)):
                self._load_group(group)
                group = []
            try:
                folder = self._scratch / file.blocks.key
                group.append(prepare(self._source, file, folder, previous_id))
            except SegmentError as error:
                self._refuse(file, error, folder / "segment.zip")
        if group:
            self._load_group(group)

    def _load_group(self, group: Sequence[PreparedSegment]) -> None:
        """Load a group; where a segment of it fails, quarantine that one and load the others."""
        try:
            self._commit(group)
        except SegmentError as error:
            bad = next((s for s in group if s.file.name.file_name == error.segment), None)
            if bad is None:
                raise
            self._refuse(bad.file, error, bad.zip_path)
            for rest in _contiguous(segment for segment in group if segment is not bad):
                self._load_group(rest)
        finally:
            for segment in group:
                shutil.rmtree(segment.zip_path.parent, ignore_errors=True)

    def _commit(self, group: Sequence[PreparedSegment]) -> None:
        name = volume_name([(segment.file.name, segment.sha256) for segment in group])
        unfinished = self._scratch / name
        unfinished.unlink(missing_ok=True)
        receipts = build_volume(unfinished, group, self._sink, self._settings, self._progress)
        due = [self._build_state(segment) for segment in self._due_states(group)]
        with_state = [state for state in due if state is not None]
        commit_file(unfinished, self._root / "volumes" / name)
        volume = Volume.of("history", f"volumes/{name}", receipts)
        segments = {segment.blocks: loaded_segment(segment, receipts) for segment in group}

        def add(newest: Catalog) -> Catalog | None:
            base = newest.without_lost_volumes()
            states = _newest_states([*base.states(), *with_state])
            if not any(known.blocks.overlaps(volume.blocks) for known in base.history()):
                merged = dict(sorted({**base.segments, **segments}.items()))
                volumes = sorted([*base.history(), volume], key=lambda known: known.blocks)
                return Catalog(base.root, base.generation, (*volumes, *states), merged)
            # Another process loaded these segments in the meantime, or only their state was lost.
            if states == base.states():
                return None
            return Catalog(base.root, base.generation, (*base.history(), *states), base.segments)

        catalog = advance(self._root, add)
        held = catalog.segments
        self.report.receipts.extend(known for known in receipts if known.blocks in held)
        if any(known.file == volume.file for known in catalog.history()):
            self.report.volumes.append(volume.file)
        self._quarantine.release(segment.file.info.key for segment in group)
        # Another process may have loaded only some of these segments while we did.
        rest = [segment for segment in group if segment.blocks not in held]
        for segment in rest:
            _check_free(segment, held)
        for run in _contiguous(iter(rest)):
            self._commit(run)

    def _due_states(self, group: Sequence[PreparedSegment]) -> Iterator[PreparedSegment]:
        """The last segment of each schema version in the group, unless a later one is loaded."""
        catalog = read_catalog(self._root)
        states = catalog.without_lost_volumes().states() if catalog else []
        known = {state.version: state.blocks for state in states}
        newest = {segment.file.name.version: segment for segment in group}
        for version, segment in newest.items():
            if version not in known or known[version] < segment.blocks:
                yield segment

    def _build_state(self, segment: PreparedSegment) -> Volume | None:
        prepared = prepare_state(segment, segment.zip_path.parent / "state")
        if not prepared.tables:
            return None
        name = volume_name([(segment.file.name, segment.sha256)])
        unfinished = self._scratch / f"state-{name}"
        unfinished.unlink(missing_ok=True)
        receipts = build_volume(unfinished, [prepared], None, self._settings, self._progress)
        commit_file(unfinished, self._root / "state" / name)
        return Volume.of("state", f"state/{name}", receipts)

    def _refuse(self, file: SegmentFile, error: SegmentError, copy: Path) -> None:
        refusal = Refusal(file.info, str(error))
        self._quarantine.put(refusal, copy if copy.exists() else None)
        self.report.failures.append(refusal)


def _previous_ids(files: Sequence[SegmentFile], catalog: Catalog | None) -> PreviousId:
    ids = {file.blocks.last: file.segment_id for file in files}
    if catalog is not None:
        ids |= {blocks.last: known.segment_id for blocks, known in catalog.segments.items()}
    return lambda file: ids.get(file.blocks.first - 1, "")


def _check_free(segment: PreparedSegment, held: Mapping[BlockRange, LoadedSegment]) -> None:
    """Raise `SegmentError` where a loaded segment covers some of the same blocks."""
    for blocks, known in held.items():
        if blocks.overlaps(segment.blocks):
            raise SegmentError(
                f"{segment.file.info.key} covers blocks that {known.name.file_name}, loaded in the "
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


def _newest_states(states: Sequence[Volume]) -> list[Volume]:
    """Of each schema version only the newest state, ascending by block."""
    newest: dict[int, Volume] = {}
    for state in sorted(states, key=lambda state: state.blocks):
        newest[state.version] = state
    return sorted(newest.values(), key=lambda state: state.blocks)
