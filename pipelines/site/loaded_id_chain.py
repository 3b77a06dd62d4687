"""The chain of the network's ids over what is loaded: how far it is proven, what contradicts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transforms.segments.id_chain import IdChain, id_chain, index_contradiction
from transforms.warehouse.manifests.manifest import SegmentIds


@dataclass(frozen=True, slots=True)
class IdReport:
    """The chain of ids, and where a source's `index.json` named other ids: (file, sentence)."""

    chain: IdChain
    index: tuple[tuple[str, str], ...]

    def findings(self) -> Iterator[tuple[str, str]]:
        """All that contradicts the chain: the segment's file or blocks, and what is wrong."""
        for contradiction in self.chain.contradictions:
            yield f"segment {contradiction.after.first}", str(contradiction)
        yield from self.index


def id_report(records: Iterable[SegmentIds]) -> IdReport:
    """Hold the ids that records say, ascending by block, against each other."""
    all_records = list(records)
    index = tuple(
        (key, index_contradiction(key, own, index_id))
        for record in all_records
        for key, own, index_id in record.named
    )
    return IdReport(id_chain(run for record in all_records for run in record.runs), index)
