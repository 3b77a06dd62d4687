"""What a data node lists and a source lacks, and how long the node keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transforms.block_range import BlockRange, gaps_between
from transforms.collecting.node_list import ListedSegment, NodeList
from transforms.coverage import union
from transforms.errors import ConfigError, SegmentError
from transforms.segments.segment_name import SegmentName


@dataclass(frozen=True, slots=True)
class Backlog:
    """The segments of a node's list that a source lacks, oldest first.

    `retention` is the number of blocks for which the node keeps a segment after its last one.
    `gaps` are the blocks that neither the source nor the node has, between those that they have.
    """

    listed: NodeList
    segments: tuple[ListedSegment, ...]
    gaps: tuple[BlockRange, ...]
    retention: int

    @property
    def blocks_left(self) -> int | None:
        """How many more blocks the oldest of the segments stays; None where there is none."""
        if not self.segments:
            return None
        newest = max(segment.blocks.last for segment in self.listed.segments)
        return max(self.segments[0].blocks.last + self.retention - newest, 0)


def backlog(listed: NodeList, keys: Iterable[str], retention: int) -> Backlog:
    """Hold a node's list against the keys of a source.

    Raises `ConfigError` where the source has segments, and all of them are of other chains.
    """
    names = set(_names(keys))
    chains = {name.chain_id for name in names}
    mine = {segment.name.chain_id for segment in listed.segments}
    if chains and mine and not chains & mine:
        raise ConfigError(
            f"the source has segments of {', '.join(sorted(chains))}, and {listed.node} has those "
            f"of {', '.join(mine)}: name another source (STRATA_SOURCE) for them"
        )
    present = (name.blocks for name in (*names, *(segment.name for segment in listed.segments)))
    return Backlog(
        listed,
        tuple(segment for segment in listed.segments if segment.name not in names),
        tuple(gaps_between(union(present))),
        retention,
    )


def _names(keys: Iterable[str]) -> Iterator[SegmentName]:
    """The names of segments among keys; a source may have other files, too."""
    for key in keys:
        try:
            yield SegmentName.parse(key)
        except SegmentError:
            continue
