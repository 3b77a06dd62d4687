"""The catalog: one snapshot of the warehouse as its readers see it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.coverage import union
from transforms.errors import RangeError
from transforms.segments.inventory import LoadedSegments
from transforms.segments.segment_name import SegmentName
from transforms.verifying.findings import ForeignRows
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.log.losses import Loss, LostRowsError
from transforms.warehouse.log.snapshot import Snapshot, lost_between
from transforms.warehouse.manifests.file_names import absent_files
from transforms.warehouse.manifests.manifest import (
    manifest_receipts,
    manifest_segments,
    read_segments,
)
from transforms.warehouse.manifests.manifest_rows import parse_foreign, row_blocks, rows_over
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Extent, Volume

SPAM_CAPTURES = "spam_captures"
"""The table that is of no segment."""


_FILE_FACTS = ("key", "size", "version")


@dataclass(frozen=True)
class Catalog:
    """One snapshot: the volumes it names and the segments they hold, ascending by block."""

    snapshot: Snapshot
    files: LocalFiles

    def segments(self, blocks: BlockRange | None = None) -> list[LoadedSegment]:
        """The loaded segments, ascending; with `blocks`, those that hold any of these.

        The manifests of a bucket that they are in are fetched once.
        """
        volumes = self.snapshot.history if blocks is None else self.volumes_over(blocks)
        lists = (manifest_segments(path, blocks) for path in self._manifests(volumes))
        return [segment for segments in lists for segment in segments]

    @cached_property
    def blocks(self) -> tuple[BlockRange, ...]:
        """The blocks of every loaded segment, ascending: a quarter of the work of `segments`."""
        return tuple(blocks for rows in self.segment_rows() for blocks in row_blocks(rows))

    def held(self) -> LoadedSegments:
        """What need not be loaded again, for judging a source by its listing."""
        files: dict[str, tuple[int, str]] = {}
        for rows in self.segment_rows():
            keys, *facts = (rows[f"source_{name}"].to_pylist() for name in _FILE_FACTS)
            files.update(zip(keys, zip(*facts, strict=True), strict=True))
        for loss in self.snapshot.losses:
            for segment in self.segments(loss.blocks):
                if loss.touches(segment.blocks):
                    files.pop(segment.info.key, None)
        runs = union(v.blocks for v in self.snapshot.history) if files else ()
        return LoadedSegments(self.snapshot.chain_id if files else "", files, self.name_over, runs)

    def name_over(self, blocks: BlockRange) -> SegmentName | None:
        """The first loaded segment with any of these blocks that need not be loaded again.

        One has to be where the state after it was lost.
        """
        for segment in self.segments(blocks):
            if not any(loss.touches(segment.blocks) for loss in self.snapshot.losses):
                return segment.name
        return None

    def segment_rows(self, blocks: BlockRange | None = None) -> list[pa.Table]:
        """The same segments as `segments`, as the rows of each manifest."""
        volumes = self.snapshot.history if blocks is None else self.volumes_over(blocks)
        tables = map(read_segments, self._manifests(volumes))
        return [rows_over(rows, blocks) for rows in tables] if blocks else [*tables]

    def foreign_rows(self, blocks: BlockRange | None = None) -> list[ForeignRows]:
        """The rows of these segments whose time belongs to no block of theirs; see `segments`."""
        return [foreign for rows in self.segment_rows(blocks) for foreign in parse_foreign(rows)]

    def _manifests(self, volumes: Iterable[Volume]) -> list[Path]:
        """The manifests of volumes, on this machine."""
        return self.files.bring(volume.file for volume in volumes)

    def segment_at(self, block: int) -> LoadedSegment | None:
        """The loaded segment that covers a block; reads the manifest of one volume."""
        return None if block < 0 else next(iter(self.segments(BlockRange(block, block))), None)

    def holds(self, blocks: BlockRange) -> bool:
        """Whether exactly this segment is loaded; reads the manifest of one volume."""
        return any(segment.blocks == blocks for segment in self.segments(blocks))

    def volumes_over(self, blocks: BlockRange) -> Sequence[Volume]:
        """The volumes of history that hold any of these blocks, ascending."""
        history = self.snapshot.history
        start = bisect_left(history, blocks.first, key=lambda volume: volume.blocks.last)
        stop = bisect_right(history, blocks.last, key=lambda volume: volume.blocks.first)
        return history[start:stop]

    def data_path(self, blocks: BlockRange, table: str) -> Path | None:
        """The data file with a segment's rows of a table, on this machine; None without rows.

        Raises `RangeError` where no volume has the segment, `MissingFileError` where the file is
        lost.
        """
        for volume in self.volumes_over(blocks):
            if volume.blocks.holds(blocks):
                file = volume.data.get(table)
                return self.files.bring([file], prove=True)[0] if file else None
        raise RangeError(f"the warehouse does not hold the segment {blocks}")

    def receipts(self, blocks: BlockRange) -> list[Receipt]:
        """The receipts of segments that begin in these blocks, by block, then by table."""
        return manifest_receipts(self._manifests(self.volumes_over(blocks)), blocks)

    @cached_property
    def lost(self) -> tuple[Volume, ...]:
        """The volumes with a file that is not there, or not whole; see `absent_files`."""
        files = (file for volume in self.snapshot.volumes for file in volume.row_files)
        absent = absent_files(self.files.store, files).keys()
        return tuple(v for v in self.snapshot.volumes if not absent.isdisjoint(v.row_files))

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """What was loaded and is in no file, by the log and by the files that are there."""
        kept = (volume for volume in self.snapshot.volumes if volume not in self.lost)
        return lost_between(self.snapshot, self.snapshot.with_volumes(kept))

    @property
    def lost_rows(self) -> LostRowsError | None:
        """The sentence about these losses; None without any."""
        place, are_named = self.files.store.describe(), bool(self.lost)
        return LostRowsError(place, self.losses, are_named=are_named) if self.losses else None

    def over(self, extent: Extent) -> Catalog:
        """The snapshot with no volumes of history but those that can hold rows of an extent.

        The whole snapshot where none can.
        """
        volumes = [*filter(extent.reaches, self.snapshot.history)]
        snapshot = self.snapshot.with_volumes([*volumes, *self.snapshot.states])
        return replace(self, snapshot=snapshot) if volumes else self

    def of_tables(self, tables: Collection[str]) -> Catalog:
        """The snapshot with no files of rows but those of these tables."""
        volumes = (volume.of_tables(tables) for volume in self.snapshot.volumes)
        snapshot = self.snapshot.with_volumes(v for v in volumes if v.kind == "history" or v.shapes)
        captures = snapshot.captures if SPAM_CAPTURES in tables else None
        return replace(self, snapshot=replace(snapshot, captures=captures))
