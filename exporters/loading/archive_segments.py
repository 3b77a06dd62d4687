"""The segments of an archive as its ZIPs' index and the lake's receipts describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv, SegmentSource
from exporters.archive.lake_place import LAKE, RECEIPTS
from exporters.archive.shards import SHARD_BLOCKS
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.segments.inventory import UNKNOWN_SIZE
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt


@dataclass(frozen=True, slots=True)
class ArchiveSegments:
    """What the index says of the segments over some blocks, and of the CSVs of each."""

    archive: Archive
    sources: Mapping[BlockRange, SegmentSource]
    csvs: Mapping[BlockRange, Mapping[str, Csv]]

    @classmethod
    def over(cls, archive: Archive, blocks: BlockRange) -> ArchiveSegments:
        """Those that begin in these blocks. Raises `IntegrityError` for a damaged document."""
        sources: dict[BlockRange, SegmentSource] = {}
        csvs: dict[BlockRange, dict[str, Csv]] = {}
        for number in range(blocks.first // SHARD_BLOCKS, blocks.last // SHARD_BLOCKS + 1):
            for entry in archive.shard(number).entries:
                if not entry.is_bundle:
                    (source,) = entry.segments
                    if sources.setdefault(source.blocks, source) != source:
                        raise IntegrityError(
                            f"{archive.place(entry.path)} was made of another segment "
                            f"{source.blocks} than the ZIPs beside it"
                        )
                    csvs.setdefault(source.blocks, {})[entry.table] = entry.members[0]
        return cls(archive, sources, csvs)

    def loaded(self, receipts: Sequence[Receipt]) -> list[LoadedSegment]:
        """The segments of these receipts, ascending, once index and receipts say the same.

        Raises `IntegrityError` where they do not.
        """
        by_segment: dict[SegmentName, list[Receipt]] = {}
        for receipt in sorted(receipts, key=lambda receipt: receipt.blocks):
            by_segment.setdefault(receipt.segment, []).append(receipt)
        return [self._checked(name, mine) for name, mine in by_segment.items()]

    def _checked(self, name: SegmentName, receipts: Sequence[Receipt]) -> LoadedSegment:
        place = self.archive.place(f"{LAKE}/{RECEIPTS}")
        source = self.sources.get(name.blocks)
        if source is None or source.version != name.version:
            raise IntegrityError(
                f"{place} has segment {name}, of which no ZIP is published: its keeper should "
                "run strata verify"
            )
        csvs = self.csvs[name.blocks]
        told = {r.table: (r.rows, r.bytes, r.sha256, r.schema) for r in receipts}
        published = {t: (c.rows, c.bytes, c.sha256, c.schema) for t, c in csvs.items()}
        for table in HISTORY_TABLES:
            if told.get(table) != published.get(table):
                raise IntegrityError(
                    f"{place} and the index say different of table {table} of segment "
                    f"{name.blocks}: its keeper should run strata verify"
                )
        return LoadedSegment(
            name,
            ObjectInfo(name.file_name, UNKNOWN_SIZE, ""),
            source.sha256,
            source.segment_id,
            source.previous_id,
            sum(receipt.rows for receipt in receipts),
            sum(receipt.bytes for receipt in receipts),
        )
