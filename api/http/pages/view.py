"""What the archive's page shows: loaded segments beside published ZIPs, a range at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.chain_list import chains
from exporters.archive.coverage import Coverage, union
from exporters.archive.documents import sound_index
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex
from exporters.archive.shards import shard_number
from exporters.archive.sums import Completeness, completeness
from transforms.blocks import BlockRange
from transforms.stores.store import Store
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.receipts import LoadedSegment

SHOWN = 25
"""Segments on one page."""


@dataclass(frozen=True, slots=True)
class ArchiveView:
    """One page: `shown` segments, newest first, with their published ZIPs by table.

    `newer` and `older` are blocks to ask for the pages beside it, None at an end.
    """

    chain_id: str
    loaded: Coverage
    segments: int
    index: ArchiveIndex
    extent: Completeness
    shown: Sequence[LoadedSegment]
    files: Mapping[BlockRange, Mapping[str, Entry]]
    newer: int | None
    older: int | None

    @property
    def held(self) -> BlockRange | None:
        """From the first block to the last one that is loaded or published."""
        runs = union(
            (*self.loaded, *(run for sums in self.index.tables.values() for run in sums.covered))
        )
        return BlockRange(runs[0].first, runs[-1].last) if runs else None

    @property
    def published_times(self) -> tuple[str, str]:
        """When the first and the last published block were made; empty where that is not known."""
        first, last = self.index.times or ("", "")
        return _minute(first), _minute(last)

    def began(self, blocks: BlockRange) -> str:
        """When a segment began, as far as it is published."""
        entry = self.files.get(blocks, {}).get("blocks")
        times = entry.times if entry else None
        return _minute(times[0]) if times else ""


def view_archive(catalog: Catalog | None, store: Store, block: int | None) -> ArchiveView:
    """The page with the segment of `block`, or with the newest one."""
    segments = list(catalog.segments.values()) if catalog else []
    chain_id = catalog.chain_id if catalog else next(iter(chains(store)), "")
    archive = Archive(store, chain_id)
    index = sound_index(archive) if chain_id else ArchiveIndex("")
    stop = len(segments)
    if block is not None:
        stop = sum(1 for segment in segments if segment.blocks.first <= block)
        stop = max(1, stop) if segments else 0
    start = max(0, stop - SHOWN)
    shown = segments[start:stop]
    following = segments[min(stop + SHOWN, len(segments)) - 1] if stop < len(segments) else None
    return ArchiveView(
        chain_id,
        union(segment.blocks for segment in segments),
        len(segments),
        index,
        completeness(index.tables),
        shown[::-1],
        _files(archive, index, [segment.blocks for segment in shown]),
        following.blocks.first if following else None,
        segments[start - 1].blocks.first if start else None,
    )


def _minute(time: str) -> str:
    """A time of RFC 3339 as people read it, in UTC; nothing stays nothing."""
    return f"{time[:10]} {time[11:16]} UTC" if time else ""


def _files(
    archive: Archive, index: ArchiveIndex, shown: Sequence[BlockRange]
) -> dict[BlockRange, dict[str, Entry]]:
    held = set(index.lines)
    files: dict[BlockRange, dict[str, Entry]] = {blocks: {} for blocks in shown}
    for number in sorted({shard_number(blocks) for blocks in shown} & held):
        for entry in archive.shard(number).entries:
            if not entry.is_window and entry.blocks in files:
                files[entry.blocks][entry.table] = entry
    return files
