"""Whether nodes have the same segments: honest ones make the same ids from the same blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transforms.collecting.node_list import ListedSegment, NodeList


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A segment that a node lists for blocks that another node has as another segment."""

    node: str
    segment: ListedSegment


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many of the nodes that have a segment's blocks have them under its id.

    `nodes` counts those that have the blocks, with the one whose segment it is.
    """

    nodes: int
    contradictions: tuple[Contradiction, ...]

    @property
    def agreeing(self) -> int:
        """How many nodes list the same id for the same blocks."""
        return self.nodes - len({contradiction.node for contradiction in self.contradictions})

    def __str__(self) -> str:
        return f"{self.agreeing} of {self.nodes}"


def agreement(segment: ListedSegment, others: Sequence[NodeList]) -> Agreement:
    """Hold a node's segment against the lists of other nodes."""
    answers = [(other.node, other.sharing(segment.blocks)) for other in others]
    return Agreement(
        1 + sum(bool(sharing) for _, sharing in answers),
        tuple(
            Contradiction(node, theirs)
            for node, sharing in answers
            for theirs in sharing
            if theirs != segment
        ),
    )
