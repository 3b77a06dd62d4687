"""The chain of the network's ids over what is loaded: how far it is proven, what contradicts it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from transforms.segments.id_chain import IdChain, id_chain, other_id
from transforms.segments.prepare import index_contradiction
from transforms.warehouse.receipts import LoadedSegment


@dataclass(frozen=True, slots=True)
class IdReport:
    """The chain of ids, and where a source's `index.json` named other ids: (file, sentence)."""

    chain: IdChain
    index: tuple[tuple[str, str], ...]

    def findings(self) -> Iterator[tuple[str, str]]:
        """All that contradicts the chain: the segment's file or blocks, and what is wrong."""
        for found in self.chain.contradictions:
            yield f"segment {found.after.first}", str(found)
        yield from self.index


def id_report(loaded: Collection[LoadedSegment]) -> IdReport:
    """Hold the ids of loaded segments, ascending by block, against each other."""
    index = tuple(
        (segment.info.key, index_contradiction(segment.info.key, segment.segment_id, said))
        for segment in loaded
        if other_id(segment.segment_id, said := segment.index_id)
    )
    return IdReport(id_chain(segment.id_run for segment in loaded), index)
