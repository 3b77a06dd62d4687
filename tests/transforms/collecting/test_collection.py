"""What gets into a source, and what is refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data_node_kit import DataNode, data_node, node_history
from transforms.collecting.collection import AdminSocket, CollectedSegment, collect
from transforms.collecting.node_list import ListedSegment, ask_node
from transforms.errors import NodeError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import PutResult

Collect = Callable[..., list[CollectedSegment]]


@pytest.fixture
def source(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "source")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "handover").mkdir()
    return folder


@pytest.fixture
def run(node: DataNode, source: FolderStore, folder: Path) -> Collect:
    def run(*segments: ListedSegment) -> list[CollectedSegment]:
        chosen = segments or ask_node(node.url).segments
        return list(collect(chosen, AdminSocket(node.socket), source, folder))

    return run


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.zip")}


def test_all_segments_arrive_oldest_first_under_their_names(
    node: DataNode, history: Path, tmp_path: Path, folder: Path, run: Collect
) -> None:
    outcomes = run()

    assert _contents(tmp_path / "source") == _contents(history)
    assert [outcome.refusal for outcome in outcomes] == [""] * 6
    assert [outcome.bytes for outcome in outcomes] == [
        node.files[segment_id].stat().st_size for segment_id in node.copies
    ]
    assert node.copies == [row["historySegmentId"] for row in reversed(node.rows)]
    assert not list(folder.iterdir())


def test_a_file_that_is_another_segment_is_refused_and_the_rest_goes_on(
    node: DataNode, tmp_path: Path, folder: Path, run: Collect
) -> None:
    first, second = node.id_of(0), node.id_of(1)
    node.instead[first] = node.files[second].read_bytes()

    refused, *others = run()

    assert refused.refusal == (
        f"the node lies, or its disk is damaged: its file for {first} has the id {second}; get the "
        "segment from another node"
    )
    assert [outcome.refusal for outcome in others] == [""] * 5
    assert len(_contents(tmp_path / "source")) == 5
    assert not list(folder.iterdir())


def test_one_flipped_bit_is_another_id(node: DataNode, tmp_path: Path, run: Collect) -> None:
    data = bytearray(node.files[node.id_of(3)].read_bytes())
    data[-1] ^= 1
    node.instead[node.id_of(3)] = bytes(data)

    assert [bool(outcome.refusal) for outcome in run()] == [n == 3 for n in range(6)]
    assert "kit-chain-1-31-40.zip" not in _contents(tmp_path / "source")


def test_what_no_release_can_load_yet_is_collected_all_the_same(
    tmp_path: Path, source: FolderStore, folder: Path
) -> None:
    """Its node drops it in a week."""
    node_history(tmp_path / "newer", 1, version=999, extra_entries={"history/UNKNOWN": b"a\n"})
    with data_node(tmp_path / "newer") as node:
        segments = ask_node(node.url).segments
        (outcome,) = collect(segments, AdminSocket(node.socket), source, folder)

    assert outcome.refusal == ""
    assert _contents(tmp_path / "source") == _contents(tmp_path / "newer")


def test_what_the_node_does_not_have_any_more_is_refused_and_the_rest_goes_on(
    node: DataNode, run: Collect
) -> None:
    del node.files[node.id_of(0)]

    refused, *others = run()

    assert "failed to get ipfs file" in refused.refusal
    assert [outcome.refusal for outcome in others] == [""] * 5


def test_other_bytes_in_the_source_stay_there(
    node: DataNode, source: FolderStore, tmp_path: Path, run: Collect
) -> None:
    """Somebody else has put them there since the source was listed."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "kit-chain-1-1-10.zip").write_bytes(b"other")

    refused, *others = run()

    assert "already holds other bytes" in refused.refusal
    assert [outcome.refusal for outcome in others] == [""] * 5
    assert (tmp_path / "source" / "kit-chain-1-1-10.zip").read_bytes() == b"other"


def test_the_same_bytes_in_the_source_are_success(node: DataNode, run: Collect) -> None:
    assert run() == run()
    assert len(node.copies) == 12


def test_a_node_that_writes_elsewhere_ends_it(node: DataNode, run: Collect) -> None:
    """As one in a container, which has other folders under these names."""
    node.writes = False

    with pytest.raises(NodeError, match="see the same files under the same paths"):
        run()
    assert len(node.copies) == 1


def test_a_socket_that_goes_away_ends_it_with_whole_files_only(
    node: DataNode, history: Path, tmp_path: Path, folder: Path, source: FolderStore
) -> None:
    node.before_copy = lambda number: number < 4
    outcomes = _until_lost(
        collect(ask_node(node.url).segments, AdminSocket(node.socket), source, folder)
    )

    assert len(outcomes) == 3
    arrived = _contents(tmp_path / "source")
    assert len(arrived) == 3
    assert arrived.items() <= _contents(history).items()
    assert not list(folder.iterdir())


def _until_lost(outcomes: Iterator[CollectedSegment]) -> list[CollectedSegment]:
    arrived: list[CollectedSegment] = []
    with pytest.raises(ConnectionError, match="admin socket"):
        arrived.extend(iter(lambda: next(outcomes), None))
    return arrived


def test_a_file_that_the_node_goes_on_writing_is_not_stored(
    node: DataNode, tmp_path: Path, folder: Path
) -> None:
    """The bytes that are stored are hashed while they are copied."""

    class Late(FolderStore):
        def put_if_absent(self, key: str, source: Path | bytes, **options: Any) -> PutResult:
            with folder.joinpath(key).open("ab") as file:
                file.write(b"more")
            return super().put_if_absent(key, source, **options)

    late = Late(tmp_path / "source")
    outcomes = list(collect(ask_node(node.url).segments, AdminSocket(node.socket), late, folder))

    assert ["it was not stored" in outcome.refusal for outcome in outcomes] == [True] * 6
    assert not _contents(tmp_path / "source")
