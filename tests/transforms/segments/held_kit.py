"""Loaded segments by the names of their files, as a catalog would give them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from transforms.block_range import BlockRange
from transforms.segments.inventory import LoadedSegments
from transforms.segments.segment_name import SegmentName


def held_files(keys: Iterable[str], size: int = 10, version: str = "v") -> LoadedSegments:
    """Segments, of one chain, that were loaded from files of so many bytes."""
    known = sorted(map(SegmentName.parse, keys), key=lambda name: name.blocks)

    def at(blocks: BlockRange) -> SegmentName | None:
        place = bisect_left(known, blocks.first, key=lambda name: name.blocks.last)
        if place < len(known) and known[place].blocks.overlaps(blocks):
            return known[place]
        return None

    chain_id = known[0].chain_id if known else ""
    return LoadedSegments(chain_id, {name.file_name: (size, version) for name in known}, at)
