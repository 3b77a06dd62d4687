"""The inventory: segments, runs, gaps, and every way in which files conflict (decision 9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from tests.transforms.segments.held_kit import held_files
from transforms.block_range import BlockRange
from transforms.objects import ObjectInfo
from transforms.segments.inventory import Inventory, take_inventory


def _take(keys: list[str], held: list[str] | None = None) -> Inventory:
    infos = [ObjectInfo(key, 10, "v1") for key in keys]
    return take_inventory(infos, contents=held_files(held or ()))


def _keys(inventory: Inventory) -> list[str]:
    return [segment.info.key for segment in inventory.segments]


def _refused(inventory: Inventory) -> dict[str, str]:
    return {refusal.key: refusal.reason for refusal in inventory.refused}


def test_segments_ascend_by_block_and_not_by_name() -> None:
    inventory = _take(["c-1-10001-11000.zip", "c-1-9001-10000.zip", "c-1-1-1000.zip"])
    assert _keys(inventory) == ["c-1-1-1000.zip", "c-1-9001-10000.zip", "c-1-10001-11000.zip"]
    assert inventory.chain_id == "c"
    assert inventory.refused == ()


def test_a_source_without_segments_has_no_chain() -> None:
    assert _take([]) == Inventory("", (), ())


def test_files_that_are_no_zip_are_passed_over() -> None:
    inventory = _take(["README", "index.json", "c-1-1-1000.zip.part", "c-1-1-1000.zip"])
    assert _keys(inventory) == ["c-1-1-1000.zip"]
    assert inventory.refused == ()


def test_a_zip_of_another_name_is_refused_and_said_to_be_one() -> None:
    inventory = _take(["backup.zip", "c-1-1-1000.zip", "c-1-9-5.zip"])
    assert _keys(inventory) == ["c-1-1-1000.zip"]
    assert _refused(inventory) == {
        "backup.zip": "'backup.zip' is not named <chain id>-<schema version>-<from>-<to>.zip, "
        "in plain numbers",
        "c-1-9-5.zip": "9 to 5 is not a run of blocks",
    }


@pytest.mark.parametrize(
    ("keys", "held", "kept", "refused"),
    [
        pytest.param(
            ["c-1-1-1000.zip", "c-2-1-1000.zip", "c-2-1001-2000.zip"],
            [],
            ["c-2-1001-2000.zip"],
            {"c-1-1-1000.zip": "c-2-1-1000.zip", "c-2-1-1000.zip": "c-1-1-1000.zip"},
            id="the same range twice",
        ),
        pytest.param(
            ["c-1-1-1000.zip", "c-1-501-1500.zip", "c-1-1501-2000.zip"],
            [],
            ["c-1-1501-2000.zip"],
            {"c-1-1-1000.zip": "c-1-501-1500.zip", "c-1-501-1500.zip": "c-1-1-1000.zip"},
            id="an overlap",
        ),
        pytest.param(
            ["c-1-1-10.zip", "c-1-10-20.zip"],
            [],
            [],
            {"c-1-1-10.zip": "c-1-10-20.zip", "c-1-10-20.zip": "c-1-1-10.zip"},
            id="an overlap of one block",
        ),
        pytest.param(
            ["c-1-1-9000.zip", "c-1-1001-2000.zip", "c-1-8001-9500.zip", "c-1-9501-9600.zip"],
            [],
            ["c-1-9501-9600.zip"],
            {
                "c-1-1-9000.zip": "c-1-1001-2000.zip",
                "c-1-1001-2000.zip": "c-1-1-9000.zip",
                "c-1-8001-9500.zip": "c-1-1-9000.zip",
            },
            id="one range over several others",
        ),
        pytest.param(
            ["c-1-1-1000.zip", "c-1-501-1500.zip"],
            ["c-1-1-1000.zip"],
            ["c-1-1-1000.zip"],
            {"c-1-501-1500.zip": "c-1-1-1000.zip, already loaded,"},
            id="an overlap with a loaded segment",
        ),
        pytest.param(
            ["c-2-1-1000.zip"],
            ["c-1-1-1000.zip"],
            [],
            {"c-2-1-1000.zip": "c-1-1-1000.zip, already loaded,"},
            id="a loaded range at another version",
        ),
        pytest.param(
            ["c-1-1001-2000.zip", "c-1-1501-2500.zip"],
            ["c-1-1-1000.zip"],
            [],
            {"c-1-1001-2000.zip": "c-1-1501-2500.zip", "c-1-1501-2500.zip": "c-1-1001-2000.zip"},
            id="newcomers that overlap beside a loaded segment",
        ),
        pytest.param(
            ["c-1-1-3000.zip", "c-1-2001-3000.zip"],
            ["c-1-1-1000.zip"],
            ["c-1-2001-3000.zip"],
            {"c-1-1-3000.zip": "c-1-1-1000.zip, already loaded,"},
            id="a newcomer over a loaded and a new segment",
        ),
    ],
)
def test_files_of_the_same_blocks_are_refused_by_name(
    keys: list[str], held: list[str], kept: list[str], refused: dict[str, str]
) -> None:
    inventory = _take(keys, held)
    assert _keys(inventory) == kept
    assert _refused(inventory) == {
        key: f"{key} covers blocks that {other} covers too: remove the one that is wrong"
        for key, other in refused.items()
    }


@each_of(
    ("keys", "held", "chain_id"),
    [
        (["a-1-1-10.zip", "b-1-11-20.zip", "b-1-21-30.zip"], [], "b"),
        (["b-1-11-20.zip", "a-1-1-10.zip"], [], "a"),
        (["b-1-11-20.zip", "b-1-21-30.zip", "a-1-1-10.zip"], ["a-1-1-10.zip"], "a"),
        (["b-1-11-20.zip"], ["a-1-1-10.zip"], "a"),
    ],
)
def test_one_chain_is_kept_and_another_refused(
    keys: list[str], held: list[str], chain_id: str
) -> None:
    inventory = _take(keys, held)
    other = "a" if chain_id == "b" else "b"
    assert inventory.chain_id == chain_id
    assert _keys(inventory) == [key for key in sorted(keys) if key.startswith(chain_id)]
    assert _refused(inventory) == {
        key: f"{key} belongs to chain {other}, not to {chain_id}: keep one chain in a source"
        for key in keys
        if key.startswith(other)
    }


def test_another_chain_of_the_same_blocks_is_refused_alone() -> None:
    inventory = _take(["a-1-1-10.zip", "a-1-11-20.zip", "b-1-1-10.zip"])
    assert _keys(inventory) == ["a-1-1-10.zip", "a-1-11-20.zip"]
    assert list(_refused(inventory)) == ["b-1-1-10.zip"]


def test_the_index_gives_ids_by_file_name() -> None:
    infos = [ObjectInfo(key, 1, "v") for key in ("c-1-1-10.zip", "c-1-11-20.zip")]
    first, second = take_inventory(infos, {"c-1-11-20.zip": "Qm2"}).segments
    assert (first.index_id, second.index_id) == ("", "Qm2")


def test_a_whole_network_is_listed_at_once() -> None:
    """Very many segments, nearly all of them loaded: no step may take time by their square."""
    names = [f"c-1-{n * 300 + 1}-{n * 300 + 300}.zip" for n in range(20_000)]
    inventory = _take([*names, "c-1-7-8.zip"], names[:-1])
    assert len(inventory.segments) == 20_000
    assert list(_refused(inventory)) == ["c-1-7-8.zip"]


_PIECES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 8)), max_size=12, unique=True)


@given(_PIECES, _PIECES)
def test_what_is_kept_never_shares_a_block_and_what_shares_none_is_kept(
    pieces: list[tuple[int, int]], loaded: list[tuple[int, int]]
) -> None:
    ranges = [BlockRange(first, first + more) for first, more in pieces]
    held: list[BlockRange] = []
    for first, more in loaded:
        blocks = BlockRange(first, first + more)
        if not any(blocks.overlaps(other) for other in held):
            held.append(blocks)
    inventory = _take([f"c-1-{b}.zip" for b in ranges], [f"c-1-{b}.zip" for b in held])
    kept = [segment.blocks for segment in inventory.segments]
    assert len(kept) + len(inventory.refused) == len(ranges)
    for blocks in ranges:
        loaded_over = blocks not in held and any(blocks.overlaps(other) for other in held)
        rivals = [
            other
            for other in ranges
            if other != blocks
            and other.overlaps(blocks)
            and (other in held or not any(other.overlaps(each) for each in held))
        ]
        assert (blocks in kept) is not (loaded_over or bool(rivals))
