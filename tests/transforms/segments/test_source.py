"""A source read through a real folder: its listing, its `index.json`, its files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.segments_kit import build_segment
from tests.transforms.segments.held_kit import held_files
from transforms.errors import ConfigError
from transforms.segments.source import Source, fetch_object
from transforms.stores.folder_store import FolderStore

_NAMES = ["kit-chain-1-1-2.zip", "kit-chain-1-3-4.zip"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_segment(tmp_path, first=1, last=2)
    build_segment(tmp_path, first=3, last=4)
    return tmp_path


def _ids(folder: Path) -> list[str]:
    return [segment.index_id for segment in Source(FolderStore(folder)).inventory().segments]


def _write_index(folder: Path, index: object) -> None:
    (folder / "index.json").write_text(json.dumps(index))


def test_a_source_lists_its_segments_with_size_and_version(folder: Path) -> None:
    inventory = Source(FolderStore(folder)).inventory()
    assert [segment.info.key for segment in inventory.segments] == _NAMES
    for segment in inventory.segments:
        assert segment.info.size == (folder / segment.info.key).stat().st_size
        assert segment.info.version


def test_only_the_top_level_of_a_source_counts(folder: Path) -> None:
    build_segment(folder / "old", first=1, last=2)
    build_segment(folder / "spam", chain_id="other")
    (folder / "kit-chain-1-5-6.zip").mkdir()
    inventory = Source(FolderStore(folder)).inventory()
    assert [segment.info.key for segment in inventory.segments] == _NAMES
    assert inventory.refused == ()


def test_a_name_that_is_no_text_is_refused_like_any_other(folder: Path) -> None:
    (folder / os.fsdecode(b"kit-chain\xff-1-5-6.zip")).write_bytes(b"")
    inventory = Source(FolderStore(folder)).inventory()
    assert [segment.info.key for segment in inventory.segments] == _NAMES
    (refusal,) = inventory.refused
    assert "is not a plain name" in refusal.reason
    assert refusal.reason.encode()


def test_segments_that_are_loaded_decide_the_chain(folder: Path) -> None:
    held = held_files(["other-1-1-2.zip"])
    inventory = Source(FolderStore(folder)).inventory(held)
    assert inventory.chain_id == "other"
    assert inventory.segments == ()
    assert [refusal.key for refusal in inventory.refused] == _NAMES


def test_a_segment_is_fetched_whole(folder: Path, tmp_path: Path) -> None:
    source = Source(FolderStore(folder))
    segment = source.inventory().segments[0]
    fetch_object(source.reader, segment.info.key, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (folder / segment.info.key).read_bytes()


def test_a_file_that_went_away_cannot_be_fetched(folder: Path, tmp_path: Path) -> None:
    source = Source(FolderStore(folder))
    segment = source.inventory().segments[0]
    (folder / segment.info.key).unlink()
    with pytest.raises(FileNotFoundError):
        fetch_object(source.reader, segment.info.key, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_source_says_where_it_is(folder: Path) -> None:
    source = Source(FolderStore(folder))
    assert source.describe().rstrip("/") == str(folder)
    assert repr(source) == f"Source({source.describe()})"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        Source(FolderStore(tmp_path / "nowhere")).inventory()


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        ([], ["", ""]),
        ([{"File": _NAMES[1], "HistorySegmentID": "Qm2"}], ["", "Qm2"]),
        (
            [
                {"file": _NAMES[0], "HistorySegmentID": "Qm1"},
                {"file": _NAMES[1], "HistorySegmentID": "Qm2"},
            ],
            ["Qm1", "Qm2"],
        ),
        ([{"File": _NAMES[0], "HistorySegmentID": None}], ["", ""]),
        ([{"HeightFrom": 1}, {"File": "elsewhere.zip"}], ["", ""]),
    ],
)
def test_the_index_gives_the_ids_it_knows(
    folder: Path, rows: list[dict[str, object]], ids: list[str]
) -> None:
    _write_index(folder, rows)
    assert _ids(folder) == ids


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"File": 1}',
        b"3",
        b"null",
        b'["File"]',
        b"[[1]]",
        b'["a"]',
        b"\xff",
        b"[" * 10**5,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_an_index_of_another_kind_is_refused_alone(folder: Path, text: bytes) -> None:
    (folder / "index.json").write_bytes(text)
    inventory = Source(FolderStore(folder)).inventory()
    assert [segment.index_id for segment in inventory.segments] == ["", ""]
    (refusal,) = inventory.refused
    assert refusal.key == "index.json"
    assert "index.json is not a JSON list of segments" in refusal.reason
    assert refusal.reason.endswith("remove it")
