"""The catalog: one snapshot of the warehouse as its readers see it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from pathlib import Path

from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import RangeError
from transforms.segments.inventory import LoadedSegments
from transforms.segments.segment_name import SegmentName
from transforms.stores.store import Store
from transforms.tables.registry import fold_case
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.files.lost_files import Sightings
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.manifest import (
    SegmentFiles,
    SegmentIds,
    manifest_receipts,
    read_files,
    read_ids,
    read_manifest,
)
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Extent, QueryTables, Volume


@dataclass(frozen=True)
class Catalog:
    """One snapshot: the volumes it names and the segments they hold, ascending by block.

    `sightings` are of files that need not be looked for.
    """

    snapshot: Snapshot
    store: Store
    files: LocalFiles
    sightings: Sightings = field(default_factory=Sightings, compare=False)

    @property
    def chain_id(self) -> str:
        """The chain that the warehouse holds; empty where nothing is loaded."""
        return self.snapshot.chain_id

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """All volumes, by kind, ascending by block."""
        return self.snapshot.volumes

    def history(self) -> list[Volume]:
        """The volumes of history, ascending by block."""
        return self.snapshot.history()

    def states(self) -> list[Volume]:
        """The volumes of current-state tables, ascending by block: one per schema version."""
        return self.snapshot.states()

    @cached_property
    def segments(self) -> Mapping[BlockRange, LoadedSegment]:
        """Every loaded segment, from the manifests; those of a bucket are fetched once."""
        segments = (entry for path in self._manifests() for entry in read_manifest(path))
        return {segment.blocks: segment for segment in segments}

    @cached_property
    def blocks(self) -> tuple[BlockRange, ...]:
        """The blocks of every loaded segment, ascending: a quarter of the work of `segments`."""
        return tuple(blocks for files in self._files() for blocks in files.blocks)

    def held(self) -> LoadedSegments:
        """What is loaded and intact, for judging a source by its listing."""
        sizes: dict[str, int] = {}
        for files in self.intact()._files():
            if self.lost or self.snapshot.losses:
                selectors = (self._is_intact(blocks) for blocks in files.blocks)
                sizes.update(compress(zip(files.keys, files.sizes, strict=True), selectors))
            else:
                sizes.update(zip(files.keys, files.sizes, strict=True))
        intact = (volume.blocks for volume in self.history() if volume not in self.lost)
        runs = tuple(contiguous_runs(intact)) if sizes else ()
        return LoadedSegments(self.chain_id if sizes else "", sizes, self._name_over, runs)

    def _name_over(self, blocks: BlockRange) -> SegmentName | None:
        for segment in self.intact()._sharing(blocks):
            if self._is_intact(segment.blocks):
                return segment.name
        return None

    def _is_intact(self, blocks: BlockRange) -> bool:
        """Whether no volume with any of these blocks, or with the state after them, is lost."""
        return not (
            any(volume.blocks.overlaps(blocks) for volume in self.lost)
            or any(loss.touches(blocks) for loss in self.snapshot.losses)
        )

    def ids(self) -> Iterator[SegmentIds]:
        """The ids of all loaded segments, ascending, a manifest at a time."""
        return map(read_ids, self._manifests())

    def _files(self) -> Iterator[SegmentFiles]:
        return map(read_files, self._manifests())

    def _manifests(self) -> list[Path]:
        manifests = [volume.file for volume in self._history]
        self.files.bring(manifests)
        return [self.files.path(manifest) for manifest in manifests]

    def holds(self, blocks: BlockRange) -> bool:
        """Whether exactly this segment is loaded; reads the manifest of one volume."""
        return any(segment.blocks == blocks for segment in self._sharing(blocks))

    def holds_intact(self, blocks: BlockRange) -> bool:
        """The same of what need not be loaded again."""
        return self._is_intact(blocks) and self.holds(blocks)

    def segments_over(self, blocks: BlockRange) -> Mapping[BlockRange, LoadedSegment]:
        """The loaded segments of the volumes that hold any of these blocks."""
        return self.of_volumes(self.volumes_over(blocks)).segments

    def segment_at(self, block: int) -> LoadedSegment | None:
        """The loaded segment that covers a block; reads the manifest of one volume."""
        return None if block < 0 else next(self._sharing(BlockRange(block, block)), None)

    def _sharing(self, blocks: BlockRange) -> Iterator[LoadedSegment]:
        """The loaded segments that share one of these blocks, ascending."""
        for volume in self.volumes_over(blocks):
            self.files.bring([volume.file])
            segments = read_manifest(self.files.path(volume.file))
            start = bisect_left(segments, blocks.first, key=_last_block)
            for segment in segments[start:]:
                if segment.blocks.first > blocks.last:
                    return
                yield segment

    def volumes_over(self, blocks: BlockRange) -> Iterator[Volume]:
        """The volumes of history that hold any of these blocks, ascending."""
        history = self._history
        for at in range(bisect_left(history, blocks.first, key=_last_block), len(history)):
            if history[at].blocks.first > blocks.last:
                return
            yield history[at]

    @cached_property
    def _history(self) -> list[Volume]:
        return self.snapshot.history()

    def volume_of(self, blocks: BlockRange) -> Volume:
        """The volume with a segment's history. Raises `RangeError` where none has it."""
        for volume in self.volumes_over(blocks):
            if volume.blocks.holds(blocks):
                return volume
        raise RangeError(f"the warehouse does not hold the segment {blocks}")

    def data_path(self, blocks: BlockRange, table: str) -> Path | None:
        """The data file with a segment's rows of a table, on this machine; None without rows.

        Raises `RangeError` where no volume has the segment, `MissingFileError` where the file is
        lost.
        """
        file = self.volume_of(blocks).data.get(table)
        if file is None:
            return None
        self.files.bring([file])
        return self.files.path(file)

    def receipts(self, blocks: BlockRange, table: str | None = None) -> Iterator[Receipt]:
        """The receipts of segments that begin in these blocks, ascending by block, then by table.

        With `table`, they are those of one.
        """
        manifests = [volume.file for volume in self.volumes_over(blocks)]
        self.files.bring(manifests)
        return manifest_receipts([*map(self.files.path, manifests)], blocks, table)

    @cached_property
    def lost(self) -> tuple[Volume, ...]:
        """The volumes with a file that is not there, or not whole; see `absent_files`."""
        files = (file for volume in self.volumes for file in volume.row_files)
        absent = self.sightings.absent(self.store, files).keys()
        return tuple(v for v in self.volumes if absent and not absent.isdisjoint(v.row_files))

    def intact(self) -> Catalog:
        """The snapshot without the volumes that are lost."""
        if not self.lost:
            return self
        there = [volume for volume in self.volumes if volume not in self.lost]
        return self.of_volumes(there)

    def over(self, extent: Extent) -> Catalog:
        """The snapshot with no volumes of history but those that can hold rows of an extent.

        Raises `RangeError` where none can.
        """
        volumes = [*filter(extent.reaches, self.history())]
        if not volumes:
            where = self.store.describe()
            raise RangeError(f"{where} holds nothing of {extent}: strata status says what it holds")
        return self.of_volumes([*volumes, *self.states()])

    def of_tables(self, tables: QueryTables) -> Catalog:
        """The snapshot with no files of rows but those of these tables.

        The whole snapshot where one of them is none of its tables.
        """
        volumes = [volume.of_tables(tables) for volume in self.volumes]
        known = {fold_case(table) for volume in volumes for table in volume.shapes}
        if tables.names - known - tables.own:
            return self
        catalog = self.of_volumes(v for v in volumes if v.kind == "history" or v.shapes)
        return replace(catalog, snapshot=replace(catalog.snapshot, captures=None))

    def of_volumes(self, volumes: Iterable[Volume]) -> Catalog:
        """The snapshot with these of its volumes only."""
        snapshot = self.snapshot.with_volumes(list(volumes))
        return Catalog(snapshot, self.store, self.files, self.sightings)


def _last_block(item: LoadedSegment | Volume) -> int:
    return item.blocks.last
