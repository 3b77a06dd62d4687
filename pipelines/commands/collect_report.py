"""What `strata collect` tells: segments collected and refused, and what other nodes list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporters.archive.figures import size_text
from pipelines.commands.display import Screen
from transforms.collecting.agreement import Contradiction, agreement
from transforms.collecting.backlog import Backlog
from transforms.collecting.collection import CollectedSegment
from transforms.collecting.node_list import ListedSegment, NodeList


@dataclass(slots=True)
class CollectReport:
    """What was to be collected into `source`, what other nodes list, and what has become of it.

    `unanswered` has the reason why a node was not compared, by its address.
    """

    source: str
    backlog: Backlog
    others: Sequence[NodeList]
    unanswered: Mapping[str, str]
    outcomes: list[CollectedSegment] = field(default_factory=list)

    @property
    def collected(self) -> list[CollectedSegment]:
        """What the source has got."""
        return [outcome for outcome in self.outcomes if not outcome.refusal]

    @property
    def refused(self) -> list[CollectedSegment]:
        """What it has not got, though the node was asked for it."""
        return [outcome for outcome in self.outcomes if outcome.refusal]

    @property
    def contradictions(self) -> list[tuple[ListedSegment, Contradiction]]:
        """Segments of the node for whose blocks other nodes list others, with these."""
        return [
            (segment, contradiction)
            for segment in self.backlog.listed.segments
            for contradiction in agreement(segment, self.others).contradictions
        ]

    def show(self, screen: Screen, *, is_dry: bool = False) -> None:
        """Print it; `is_dry` where nothing was to be collected yet."""
        segments = (outcome.segment for outcome in self.collected)
        screen.table(
            "to collect" if is_dry else "collected",
            ("segment", "id", "nodes that agree"),
            (
                (s.blocks, s.segment_id, agreement(s, self.others))
                for s in (self.backlog.segments if is_dry else segments)
            ),
        )
        screen.table(
            "refused", ("segment", "reason"), ((r.segment.blocks, r.refusal) for r in self.refused)
        )
        contradictions = self.contradictions
        screen.table(
            "other nodes list",
            ("node", "segment", "id", "instead of"),
            (
                (c.node, c.segment.blocks, c.segment.segment_id, mine.segment_id)
                for mine, c in contradictions
            ),
        )
        for node, reason in self.unanswered.items():
            screen.message(f"{node} was not compared: {reason}")
        screen.show(self._summary())
        screen.document(self._facts(contradictions))

    def _summary(self) -> str:
        waiting, listed = len(self.backlog.segments), len(self.backlog.listed.segments)
        lines = [f"{waiting:,} of the node's {listed:,} segments are not in {self.source} yet"]
        if not waiting:
            lines = [f"Nothing new to collect: {self.source} has all {listed:,} segments."]
        elif collected := self.collected:
            size = size_text(sum(outcome.bytes for outcome in collected))
            lines = [f"{len(collected):,} of {waiting:,} segments collected: {size}, {self.source}"]
        if gaps := ", ".join(map(str, self.backlog.gaps)):
            lines.append(f"neither the source nor the node has blocks {gaps}: ask another node")
        return "\n".join(lines)

    def _facts(
        self, contradictions: Sequence[tuple[ListedSegment, Contradiction]]
    ) -> dict[str, Any]:
        return {
            "node": self.backlog.listed.node,
            "source": self.source,
            "listed": len(self.backlog.listed.segments),
            "lacking": [self._segment_facts(segment) for segment in self.backlog.segments],
            "collected": [
                {**self._segment_facts(outcome.segment), "bytes": outcome.bytes}
                for outcome in self.collected
            ],
            "refused": [
                {**self._segment_facts(outcome.segment), "reason": outcome.refusal}
                for outcome in self.refused
            ],
            "contradictions": [
                {
                    "node": c.node,
                    "segment": str(c.segment.blocks),
                    "id": c.segment.segment_id,
                    "instead_of": mine.segment_id,
                }
                for mine, c in contradictions
            ],
            "unanswered": [{"node": node, "reason": why} for node, why in self.unanswered.items()],
            "gaps": [str(gap) for gap in self.backlog.gaps],
        }

    def _segment_facts(self, segment: ListedSegment) -> dict[str, Any]:
        answers = agreement(segment, self.others)
        return {
            "segment": str(segment.blocks),
            "file": segment.name.file_name,
            "id": segment.segment_id,
            "nodes": answers.nodes,
            "agreeing": answers.agreeing,
        }
