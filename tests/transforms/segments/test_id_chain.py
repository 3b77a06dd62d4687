"""From which block to which the chain of ids is unbroken, and where it is contradicted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from transforms.block_range import BlockRange
from transforms.segments.cid import CidHasher
from transforms.segments.id_chain import IdRun, id_chain, other_id


def _cid(name: str) -> str:
    hasher = CidHasher()
    hasher.update(name.encode())
    return hasher.cid()


def _segment(number: int, own: str, previous: str, *, width: int = 10) -> IdRun:
    blocks = BlockRange(number * width + 1, (number + 1) * width)
    return IdRun(blocks, blocks, own, previous)


A, B, C, X = (_cid(name) for name in "abcx")


@each_of(
    ("segments", "runs", "wrong"),
    [
        ([], [], []),
        ([(0, A, "")], ["1-10"], []),
        ([(0, A, ""), (1, B, A), (2, C, B)], ["1-30"], []),
        ([(0, A, X), (1, B, A)], ["1-20"], []),
        # What is no id says nothing, and proves nothing.
        ([(0, A, ""), (1, B, "")], ["1-10", "11-20"], []),
        ([(0, A, ""), (1, B, "fake-cid-1")], ["1-10", "11-20"], []),
        # A predecessor that is not there.
        ([(0, A, ""), (2, C, A)], ["1-10", "21-30"], []),
        ([(0, A, ""), (2, C, B)], ["1-10", "21-30"], []),
        # Not the one that its successor was made after.
        ([(0, A, ""), (1, B, X), (2, C, B)], ["1-10", "11-30"], [("1-10", "11-20")]),
        ([(0, A, ""), (1, B, A), (2, C, X)], ["1-20", "21-30"], [("11-20", "21-30")]),
        # Two ids of one segment.
        ([(0, A, ""), (1, B, A), (1, C, A)], ["1-20", "11-20"], [("11-20", "11-20")]),
    ],
)
def test_runs_and_contradictions(
    segments: Sequence[tuple[int, str, str]],
    runs: list[str],
    wrong: list[tuple[str, str]],
) -> None:
    chain = id_chain(_segment(*one) for one in segments)
    assert [str(run.blocks) for run in chain.runs] == runs
    found = [(str(one.before.last), str(one.after.first)) for one in chain.contradictions]
    assert found == wrong


def test_a_contradiction_names_both_segments_and_all_ids() -> None:
    (found,) = id_chain([_segment(0, A, ""), _segment(1, B, X)]).contradictions
    assert str(found) == (
        f"segment 1-10 has the id {A}, but segment 11-20 (id {B}) was made after {X}: one of the "
        "two is of another history; get both from another source"
    )


@given(
    links=st.lists(st.sampled_from(["", "right", "wrong", "fake"]), min_size=1, max_size=12),
    cuts=st.sets(st.integers(1, 11)),
)
def test_a_chain_of_parts_joins_to_the_chain_of_the_whole(links: list[str], cuts: set[int]) -> None:
    """Runs of shards can be joined without looking at their segments again."""
    ids = [_cid(str(number)) for number in range(len(links) + 1)]
    segments = []
    for number, link in enumerate(links):
        named = {"": "", "right": ids[number - 1], "wrong": X, "fake": "fake-cid-7"}[link]
        segments.append(_segment(number, ids[number], named))
    whole = id_chain(segments)
    places = sorted({0, len(segments), *(cut for cut in cuts if cut < len(segments))})
    parts = [id_chain(segments[start:end]) for start, end in pairwise(places)]
    joined = id_chain(run for part in parts for run in part.runs)
    assert joined.runs == whole.runs
    found = [*joined.contradictions, *(one for part in parts for one in part.contradictions)]
    pairs = {(one.before.last, one.after.first) for one in found}
    assert pairs == {(one.before.last, one.after.first) for one in whole.contradictions}


@each_of(
    ("own", "said", "other"),
    [(A, A, False), (A, B, True), (A, "", False), (A, "fake-cid-1", False)],
)
def test_somebody_says_another_id(own: str, said: str, *, other: bool) -> None:
    assert other_id(own, said) is other
