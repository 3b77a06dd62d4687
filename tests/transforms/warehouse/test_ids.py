"""The network's ids of loaded segments: computed, kept, and held against what others say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cid_kit import cid_of
from tests.transforms.warehouse_kit import history_segment, load_folder, quarantine_reasons
from transforms.segments.cid import CidHasher
from transforms.warehouse.load.loader import LoadReport
from transforms.warehouse.manifests.receipts import LoadedSegment
from transforms.warehouse.warehouse_address import open_warehouse


def _other(name: str) -> str:
    """The id of some other segment."""
    hasher = CidHasher()
    hasher.update(name.encode())
    return hasher.cid()


def _chain(folder: Path, count: int, start: int = 0, previous: str = "") -> list[str]:
    """Write segments of two blocks, each made after the one before; returns their ids."""
    ids = []
    for number in range(start, start + count):
        first = 2 * number + 1
        path = history_segment(folder, first=first, last=first + 1, previous_id=previous)
        previous = cid_of(path)
        ids.append(previous)
    return ids


def _held(root: Path) -> list[LoadedSegment]:
    return open_warehouse(root).catalog().segments()


def _loaded(report: LoadReport) -> list[str]:
    return sorted(map(str, report.loaded))


def _index(folder: Path, *rows: dict[str, str]) -> None:
    (folder / "index.json").write_text(json.dumps(rows))


def test_the_id_is_computed_whatever_the_index_says(tmp_path: Path) -> None:
    ids = _chain(tmp_path / "s", 3)
    _index(
        tmp_path / "s",
        {"File": "kit-chain-1-1-2.zip", "HistorySegmentID": ids[0]},
        {"File": "kit-chain-1-3-4.zip", "HistorySegmentID": "fake-cid-2"},
    )
    load_folder(tmp_path / "w", tmp_path / "s")
    held = _held(tmp_path / "w")
    assert [segment.segment_id for segment in held] == ids
    assert [segment.previous_id for segment in held] == ["", *ids[:2]]
    assert [segment.index_id for segment in held] == [ids[0], "fake-cid-2", ""]


def test_ids_survive_compaction_and_the_loss_of_the_log(tmp_path: Path) -> None:
    ids = _chain(tmp_path / "s", 2)
    load_folder(tmp_path / "w", tmp_path / "s")
    ids += _chain(tmp_path / "s", 2, 2, ids[-1])
    _index(tmp_path / "s", {"File": "kit-chain-1-5-6.zip", "HistorySegmentID": ids[2]})
    load_folder(tmp_path / "w", tmp_path / "s")
    before = _held(tmp_path / "w")
    open_warehouse(tmp_path / "w").compact(most_partial=1)
    assert _held(tmp_path / "w") == before
    assert [segment.segment_id for segment in before] == ids


def _strictly_loaded(root: Path, folder: Path) -> LoadReport:
    return load_folder(root, folder, requires_id_chain=True)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_segment_of_another_history_is_loaded_or_refused(
    tmp_path: Path, *, at_once: bool
) -> None:
    folder = tmp_path / "s"
    (own,) = _chain(folder, 1)
    if not at_once:
        _strictly_loaded(tmp_path / "strict", folder)
    ids = _chain(folder, 2, 1, _other("x"))
    assert _loaded(load_folder(tmp_path / "w", folder)) == ["1-2", "3-4", "5-6"]
    report = _strictly_loaded(tmp_path / "strict", folder)
    assert quarantine_reasons(open_warehouse(tmp_path / "strict")) == {
        "kit-chain-1-3-4.zip": (
            f"segment 1-2 has the id {own}, but segment 3-4 (id {ids[0]}) was made after "
            f"{_other('x')}: one of the two is of another history; get both from another source"
        )
    }
    assert [refusal.key for refusal in report.failures] == ["kit-chain-1-3-4.zip"]
    assert [str(one.blocks) for one in _held(tmp_path / "strict")] == ["1-2", "5-6"]


def test_a_segment_that_its_loaded_successor_was_not_made_after_is_refused(tmp_path: Path) -> None:
    later = _chain(tmp_path / "later", 2, 1, _other("x"))
    load_folder(tmp_path / "w", tmp_path / "later")
    (own,) = _chain(tmp_path / "s", 1)
    report = _strictly_loaded(tmp_path / "w", tmp_path / "s")
    assert [refusal.reason for refusal in report.failures] == [
        f"segment 1-2 has the id {own}, but segment 3-4 (id {later[0]}) was made after "
        f"{_other('x')}: one of the two is of another history; get both from another source"
    ]


def test_a_predecessor_that_is_refused_decides_about_nobody(tmp_path: Path) -> None:
    """In one batch: the first cannot be loaded, so nothing is known of the second's past."""
    history_segment(tmp_path / "s", last=2, tables={"orders": b"id,price\n1\n"})
    _chain(tmp_path / "s", 1, 1, _other("x"))
    report = _strictly_loaded(tmp_path / "w", tmp_path / "s")
    assert [refusal.key for refusal in report.failures] == ["kit-chain-1-1-2.zip"]
    assert _loaded(report) == ["3-4"]


def test_what_is_no_id_is_loaded_like_any_other(tmp_path: Path) -> None:
    history_segment(tmp_path / "s", last=2, previous_id="fake-cid-0")
    history_segment(tmp_path / "s", first=3, last=4, previous_id="fake-cid-1")
    _index(tmp_path / "s", {"File": "kit-chain-1-3-4.zip", "HistorySegmentID": "fake-cid-2"})
    report = _strictly_loaded(tmp_path / "w", tmp_path / "s")
    assert _loaded(report) == ["1-2", "3-4"]


def test_ids_that_are_no_text_at_all_are_stored(tmp_path: Path) -> None:
    """JSON may hold halves of surrogate pairs, which no column of text can."""
    history_segment(tmp_path / "s", last=2, metadata={"PreviousHistorySegmentID": "\ud800" * 200})
    (tmp_path / "s" / "index.json").write_text(
        json.dumps([{"File": "kit-chain-1-1-2.zip", "HistorySegmentID": "\udfff"}])
    )
    load_folder(tmp_path / "w", tmp_path / "s")
    (held,) = _held(tmp_path / "w")
    assert (held.previous_id, held.index_id) == ("\\ud800" * 100, "\\udfff")


def test_metadata_of_another_chain_is_named_in_a_sentence_of_bounded_length(tmp_path: Path) -> None:
    history_segment(tmp_path / "s", last=2, metadata={"ChainID": "\ud800" * 10_000})
    (refusal,) = load_folder(tmp_path / "w", tmp_path / "s").failures
    assert len(refusal.reason.encode()) < 1000
