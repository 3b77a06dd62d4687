from __future__ import annotations

from transforms.block_range import BlockRange
from transforms.collecting.agreement import Contradiction, agreement
from transforms.collecting.node_list import ListedSegment, NodeList
from transforms.segments.segment_name import SegmentName


def _segment(first: int, last: int, segment_id: str = "mine") -> ListedSegment:
    return ListedSegment(SegmentName("chain", 1, BlockRange(first, last)), segment_id)


def test_nodes_that_list_the_id_are_counted_and_those_without_the_blocks_are_not() -> None:
    same = NodeList("same", (_segment(1, 10), _segment(11, 20, "next")))
    younger = NodeList("younger", (_segment(11, 20, "next"),))

    answers = agreement(_segment(1, 10), [same, younger])

    assert str(answers) == "2 of 2"
    assert answers.contradictions == ()


def test_a_node_alone_agrees_with_itself() -> None:
    assert str(agreement(_segment(1, 10), [])) == "1 of 1"


def test_another_id_and_other_boundaries_contradict() -> None:
    other_id = NodeList("id", (_segment(1, 10, "theirs"),))
    halves = (_segment(1, 5, "left"), _segment(6, 10, "right"))
    same = NodeList("same", (_segment(1, 10),))

    answers = agreement(_segment(1, 10), [other_id, NodeList("cut", halves), same])

    assert (answers.agreeing, answers.nodes) == (2, 4)
    assert answers.contradictions == (
        Contradiction("id", other_id.segments[0]),
        Contradiction("cut", halves[0]),
        Contradiction("cut", halves[1]),
    )
