from __future__ import annotations

from collections.abc import Sequence

import pytest

from transforms.block_range import BlockRange
from transforms.collecting.node_list import ListedSegment, NodeList, backlog
from transforms.errors import ConfigError
from transforms.segments.segment_name import SegmentName

NODE = NodeList(
    "node",
    tuple(
        ListedSegment(SegmentName("chain", 1, BlockRange(first, first + 9)), f"id-{first}")
        for first in (11, 21, 31, 41)
    ),
)


def _lacking(keys: Sequence[str]) -> list[str]:
    return [str(segment.blocks) for segment in backlog(NODE, keys, 100).segments]


def test_what_the_source_lacks_is_listed_oldest_first() -> None:
    assert _lacking([]) == ["11-20", "21-30", "31-40", "41-50"]
    assert _lacking(["chain-1-21-30.zip", "index.json", "chain.zip"]) == ["11-20", "31-40", "41-50"]


def test_another_version_is_another_segment() -> None:
    assert _lacking(["chain-2-11-20.zip"]) == ["11-20", "21-30", "31-40", "41-50"]


@pytest.mark.parametrize(
    ("keys", "retention", "left"),
    [
        ([], 604_800, 604_770),
        (["chain-1-11-20.zip"], 604_800, 604_780),
        ([], 30, 0),
        ([], 5, 0),
        ([f"chain-1-{first}-{first + 9}.zip" for first in (11, 21, 31, 41)], 604_800, None),
    ],
)
def test_blocks_are_left_until_the_oldest_is_out_of_the_nodes_span(
    keys: list[str], retention: int, left: int | None
) -> None:
    """A node drops a segment whose last block is more than the span below its newest one."""
    assert backlog(NODE, keys, retention).blocks_left == left


def test_a_source_of_another_chain_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="the source has segments of other, and node has those of"
    ):
        backlog(NODE, ["other-1-1-10.zip"], 100)
    assert backlog(NodeList("node", ()), ["other-1-1-10.zip"], 100).segments == ()
