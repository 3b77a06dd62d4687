"""The catalog: one generation of the warehouse as its readers see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transforms.blocks import BlockRange
from transforms.errors import ConfigError, IntegrityError, RangeError
from transforms.objects import ObjectInfo
from transforms.stores.store import Store
from transforms.warehouse.document import Document
from transforms.warehouse.local_files import LocalFiles
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.record import read_record, recorded_receipts
from transforms.warehouse.shapes import Extent, Volume


@dataclass(frozen=True)
class Catalog:
    """One generation: the volumes it names and the segments they hold, ascending by block."""

    document: Document
    store: Store
    files: LocalFiles

    @property
    def generation(self) -> int:
        """Its number."""
        return self.document.generation

    @property
    def chain_id(self) -> str:
        """The chain that the warehouse holds; empty where nothing is loaded."""
        return self.document.chain_id

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """All volumes, by kind, ascending by block."""
        return self.document.volumes

    def history(self) -> list[Volume]:
        """The volumes of history, ascending by block."""
        return self.document.history()

    def states(self) -> list[Volume]:
        """The volumes of current-state tables, ascending by block: one per schema version."""
        return self.document.states()

    @cached_property
    def segments(self) -> Mapping[BlockRange, LoadedSegment]:
        """Every loaded segment, from the records; those of a bucket are fetched once."""
        records = [volume.record for volume in self.history() if volume.record]
        self.files.bring(records)
        found = (one for record in records for one in read_record(self.files.path(record)))
        return {segment.blocks: segment for segment in found}

    def segment_at(self, block: int) -> LoadedSegment | None:
        """The loaded segment that covers a block; reads the record of one volume."""
        if block < 0:
            return None
        for volume in self.volumes_over(BlockRange(block, block)):
            if volume.record:
                self.files.bring([volume.record])
                for segment in read_record(self.files.path(volume.record)):
                    if segment.blocks.first <= block <= segment.blocks.last:
                        return segment
        return None

    def volumes_over(self, blocks: BlockRange) -> Iterator[Volume]:
        """The volumes of history that hold any of these blocks, ascending."""
        return (volume for volume in self.history() if volume.blocks.overlaps(blocks))

    def volume_of(self, blocks: BlockRange) -> Volume:
        """The volume with a segment's history. Raises `RangeError` where none has it."""
        for volume in self.volumes_over(blocks):
            if volume.blocks.first <= blocks.first and blocks.last <= volume.blocks.last:
                return volume
        raise RangeError(f"the warehouse does not hold the segment {blocks}")

    def volume_path(self, blocks: BlockRange) -> Path:
        """The file of the volume with a segment's history, on this machine.

        Raises `RangeError` where none has it, `IntegrityError` where it is missing.
        """
        file = self.volume_of(blocks).file
        try:
            self.files.bring([file])
        except FileNotFoundError as error:
            raise IntegrityError(
                f"{self.store.describe(file.key)} is missing: load its segments again"
            ) from error
        return self.files.path(file)

    def receipts(
        self, blocks: BlockRange, where: str = "true", values: dict[str, str] | None = None
    ) -> Iterator[Receipt]:
        """The receipts of segments inside these blocks, ascending by block, then by table.

        `where` is SQL over `strata.receipts` with the bound `values`.
        """
        records = [volume.record for volume in self.volumes_over(blocks) if volume.record]
        self.files.bring(records)
        inside = f"first_block >= {blocks.first} and last_block <= {blocks.last}"
        paths = [self.files.path(record) for record in records]
        return recorded_receipts(paths, f"{inside} and ({where})", values)

    @cached_property
    def lost(self) -> tuple[Volume, ...]:
        """The volumes that are not there, or not with all their bytes.

        A listing is not believed: what it lacks is asked for by name. A store that cannot be
        reached raises, and nothing counts as lost.
        """
        sizes: dict[str, int] = {}
        for prefix in sorted({volume.key.partition("/")[0] for volume in self.volumes}):
            sizes |= {info.key: info.size for info in _listed(self.store, f"{prefix}/")}
        return tuple(
            volume
            for volume in self.volumes
            if sizes.get(volume.key) != volume.size and not self._is_there(volume)
        )

    def _is_there(self, volume: Volume) -> bool:
        info = self.store.head(volume.key)
        return info is not None and info.size == volume.size

    def intact(self) -> Catalog:
        """The generation without the volumes that are lost."""
        if not self.lost:
            return self
        there = [volume for volume in self.volumes if volume not in self.lost]
        return self.of_volumes(there)

    def over(self, extent: Extent) -> Catalog:
        """The generation with no volumes of history but those that can hold rows of an extent.

        Raises `RangeError` where none can.
        """
        volumes = [*filter(extent.reaches, self.history())]
        if not volumes:
            where = self.store.describe()
            raise RangeError(f"{where} holds nothing of {extent}: strata status says what it holds")
        return self.of_volumes([*volumes, *self.states()])

    def of_volumes(self, volumes: Iterable[Volume]) -> Catalog:
        """The generation with these of its volumes only."""
        return Catalog(self.document.with_volumes(list(volumes)), self.store, self.files)

    def intact_segments(self) -> Mapping[BlockRange, LoadedSegment]:
        """The segments whose volumes are all there; the others must be loaded again."""
        lost = [volume.blocks for volume in self.lost]
        if not lost:
            return self.segments
        return {
            blocks: segment
            for blocks, segment in self.segments.items()
            if not any(blocks.overlaps(gone) for gone in lost)
        }


def _listed(store: Store, prefix: str) -> Iterator[ObjectInfo]:
    try:
        yield from store.list(prefix)
    except ConfigError:  # the folder itself is not there
        return
