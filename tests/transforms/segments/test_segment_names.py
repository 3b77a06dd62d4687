"""Segment names and block ranges: the rules of spec 2.8.6-8 as tables of cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from transforms.block_range import BlockRange, gaps_between
from transforms.coverage import union
from transforms.errors import SegmentError
from transforms.segments.segment_name import SegmentName

_HEIGHTS = st.integers(0, 10**9 - 1)
_RANGES = st.tuples(_HEIGHTS, _HEIGHTS).map(lambda pair: BlockRange(min(pair), max(pair)))


def _ranges(*pairs: tuple[int, int]) -> list[BlockRange]:
    return [BlockRange(*pair) for pair in pairs]


@each_of(
    ("file_name", "chain_id", "version", "first", "last"),
    [
        ("testnet-001-1-1-1000.zip", "testnet-001", 1, 1, 1000),
        ("vega-mainnet-0011-123-4001-5000.zip", "vega-mainnet-0011", 123, 4001, 5000),
        ("chain-1-2-3-4-5.zip", "chain-1-2", 3, 4, 5),
        ("1-2-3-4.zip", "1", 2, 3, 4),
        ("a-0-0-0.zip", "a", 0, 0, 0),
        ("A.b_c-1-7-7.zip", "A.b_c", 1, 7, 7),
        ("x.zip-1-1-1000.zip", "x.zip", 1, 1, 1000),
    ],
)
def test_the_last_three_numbers_of_a_name_count(
    file_name: str, chain_id: str, version: int, first: int, last: int
) -> None:
    name = SegmentName.parse(file_name)
    assert name == SegmentName(chain_id, version, BlockRange(first, last))
    assert name.file_name == file_name


@each_of(
    ("file_name", "words"),
    [
        ("readme.txt", "is not named"),
        ("readme.zip", "is not named"),
        ("chain-1-1000.zip", "is not named"),
        ("-1-1-1000.zip", "is not named"),
        ("chain-1-1-1000.zip.part", "is not named"),
        ("chain-1-1-1000.ZIP", "is not named"),
        ("chain-1-1-1000.zip\n", "is not named"),
        ("chain-one-1-1000.zip", "is not named"),
        ("chain-1-0001-1000.zip", "is not named .* in plain numbers"),
        ("chain-001-1-1000.zip", "is not named"),
        ("chain-1-+1-1000.zip", "is not named"),
        ("chain-1-1-１０００.zip", "is not named"),  # noqa: RUF001 - digits, but not ours
        ("../chain-1-1-1000.zip", "chain id '../chain'"),
        ("a/b-1-1-1000.zip", "chain id 'a/b'"),
        ("-x-1-1-1000.zip", "chain id '-x'"),
        (".hidden-1-1-1000.zip", "chain id '.hidden'"),
        ("two words-1-1-1000.zip", "chain id 'two words'"),
        ("chaîne-1-1-1000.zip", "chain id 'chaîne'"),
        ("index.html-1-1-1000.zip", "chain id 'index.html' .* cannot be published"),
        ("Chains.JSON-1-1-1000.zip", "chain id 'Chains.JSON' .* cannot be published"),
        ("unfinished-1-1-1000.zip", "chain id 'unfinished' .* cannot be published"),
        (f"{'c' * 129}-1-1-1000.zip", "has 129 characters"),
        ("chain-1-1000-1.zip", "1000 to 1 is not a run of blocks"),
        (f"chain-1-1-{2**63}.zip", "is not a run of blocks"),
        (f"chain-1-1-{2**63 - 1}.zip", "the greatest that can be loaded is 999999999"),
        (f"chain-1-1-{10**9}.zip", "the greatest that can be loaded is 999999999"),
        (f"chain-{2**31}-1-1000.zip", "is not named"),
        (f"chain-1-1-{'9' * 5000}.zip", "is not named"),
    ],
)
def test_a_file_of_another_name_is_no_segment(file_name: str, words: str) -> None:
    with pytest.raises(SegmentError, match=words):
        SegmentName.parse(file_name)


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True),
    st.integers(0, 9999),
    _RANGES,
)
def test_every_segment_name_is_read_back(chain_id: str, version: int, blocks: BlockRange) -> None:
    name = SegmentName(chain_id, version, blocks)
    assert SegmentName.parse(name.file_name) == name


def test_a_segment_names_itself_by_its_blocks() -> None:
    assert str(SegmentName("c", 1, BlockRange(1, 1000))) == "segment 1-1000"


@pytest.mark.parametrize(("first", "last"), [(-1, 5), (2, 1), (0, 2**63)])
def test_a_range_runs_forward_from_zero(first: int, last: int) -> None:
    with pytest.raises(SegmentError, match="is not a run of blocks"):
        BlockRange(first, last)


@pytest.mark.parametrize(
    ("first", "last", "key"),
    [
        (1, 1000, "000000001-000001000"),
        (0, 0, "000000000-000000000"),
        (74_000_001, 74_000_300, "074000001-074000300"),
    ],
)
def test_a_key_is_padded_and_read_back(first: int, last: int, key: str) -> None:
    assert BlockRange(first, last).key == key
    assert BlockRange.from_key(key) == BlockRange(first, last)


@given(st.lists(_RANGES))
def test_keys_sort_as_text_like_their_blocks(ranges: list[BlockRange]) -> None:
    assert sorted(blocks.key for blocks in ranges) == [blocks.key for blocks in sorted(ranges)]


@given(_RANGES)
def test_every_key_is_read_back(blocks: BlockRange) -> None:
    assert BlockRange.from_key(blocks.key) == blocks


@each_of(
    ("one", "other", "overlap", "joins"),
    [
        ((1, 10), (11, 20), False, True),
        ((1, 10), (10, 20), True, False),
        ((1, 10), (12, 20), False, False),
        ((1, 10), (1, 10), True, False),
        ((1, 10), (3, 4), True, False),
        ((11, 20), (1, 10), False, False),
        ((0, 0), (1, 1), False, True),
    ],
)
def test_ranges_overlap_or_join(
    one: tuple[int, int], other: tuple[int, int], overlap: bool, joins: bool
) -> None:
    assert BlockRange(*one).overlaps(BlockRange(*other)) is overlap
    assert BlockRange(*other).overlaps(BlockRange(*one)) is overlap
    assert BlockRange(*one).joins(BlockRange(*other)) is joins


@each_of(
    ("pieces", "runs", "gaps"),
    [
        ([], [], []),
        ([(1, 10)], [(1, 10)], []),
        ([(11, 20), (1, 10)], [(1, 20)], []),
        ([(1, 10), (12, 20)], [(1, 10), (12, 20)], [(11, 11)]),
        ([(1, 10), (11, 11), (12, 12), (14, 20)], [(1, 12), (14, 20)], [(13, 13)]),
        ([(50, 60), (1, 9), (10, 19), (40, 49)], [(1, 19), (40, 60)], [(20, 39)]),
    ],
)
def test_pieces_join_to_runs_with_gaps_between(
    pieces: list[tuple[int, int]], runs: list[tuple[int, int]], gaps: list[tuple[int, int]]
) -> None:
    found = list(union(_ranges(*pieces)))
    assert found == _ranges(*runs)
    assert list(gaps_between(found)) == _ranges(*gaps)


@given(st.sets(st.integers(0, 60)))
def test_runs_and_gaps_cover_every_block_once(heights: set[int]) -> None:
    runs = union(BlockRange(height, height) for height in heights)
    held = [height for run in runs for height in range(run.first, run.last + 1)]
    missing = [h for gap in gaps_between(runs) for h in range(gap.first, gap.last + 1)]
    assert held == sorted(heights)
    assert set(missing) == set(range(min(heights, default=0), max(heights, default=0))) - heights
