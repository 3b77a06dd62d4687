"""The chain of the network's ids: each segment names the id of the one it was made after.

Pure values: no I/O here. What is not known says nothing: a previous id that is no CID, a segment
that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from transforms.block_range import BlockRange
from transforms.segments.cid import is_cid


@dataclass(frozen=True, slots=True)
class IdRun:
    """Consecutive segments, perhaps one, each of which names the id of the one before it.

    `segment_id` is the computed id of the last one, `previous_id` what the first one names as the
    id of the segment before it.
    """

    first: BlockRange
    last: BlockRange
    segment_id: str
    previous_id: str

    @property
    def blocks(self) -> BlockRange:
        """All blocks of the run."""
        return BlockRange(self.first.first, self.last.last)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Neighbours of which the second was not made after the first, or two ids of one segment."""

    before: IdRun
    after: IdRun

    @property
    def is_of_one(self) -> bool:
        """Whether these are two ids of the same segment."""
        return self.before.last == self.after.first

    def __str__(self) -> str:
        if self.is_of_one:
            return (
                f"segment {self.before.last} has the id {self.before.segment_id} and the id "
                f"{self.after.segment_id}: publish all of its tables again, from one of the two"
            )
        own = f" (id {self.after.segment_id})" if self.after.first == self.after.last else ""
        return (
            f"segment {self.before.last} has the id {self.before.segment_id}, but segment "
            f"{self.after.first}{own} was made after {self.after.previous_id}: one of the two is "
            "of another history; get both from another source"
        )


@dataclass(frozen=True, slots=True)
class IdChain:
    """How far the chain of ids is unbroken, ascending by block."""

    runs: tuple[IdRun, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()


def id_chain(runs: Iterable[IdRun]) -> IdChain:
    """Join segments, or runs of them, that ascend; they overlap where one has two ids."""
    joined: list[IdRun] = []
    contradictions: list[Contradiction] = []
    for run in runs:
        before = joined[-1] if joined else None
        if before is not None and (conflict := contradiction(before, run)):
            contradictions.append(conflict)
        if (
            before is not None
            and before.segment_id == run.previous_id
            and before.last.joins(run.first)
        ):
            joined[-1] = IdRun(before.first, run.last, run.segment_id, before.previous_id)
        else:
            joined.append(run)
    return IdChain(tuple(joined), tuple(contradictions))


def contradiction(before: IdRun, after: IdRun) -> Contradiction | None:
    """What is wrong between two neighbours, if anything is."""
    wrong = (
        before.last.joins(after.first)
        and before.segment_id != after.previous_id
        and is_cid(after.previous_id)
    )
    return Contradiction(before, after) if wrong or before.last == after.first else None


def other_id(segment_id: str, claim: str) -> bool:
    """Whether somebody's word for a segment's id is another one than the computed id."""
    return claim != segment_id and is_cid(claim)


def index_contradiction(name: str, segment_id: str, index_id: str) -> str:
    """The sentence about a source's `index.json` that names another id than the computed one."""
    return (
        f"{name} has the id {segment_id} by its bytes, but {index_id} by the source's index.json: "
        "get the file again, or correct the index"
    )
