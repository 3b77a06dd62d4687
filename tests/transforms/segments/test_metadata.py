"""The name that a segment gives itself; what it cannot read is in `test_collection`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.segments_kit import all_shared_segments, build_segment
from transforms.errors import SegmentError
from transforms.segments.metadata import stated_name
from transforms.segments.segment_name import SegmentName


def test_a_segment_says_its_name_whatever_its_file_is_called(tmp_path: Path) -> None:
    path = build_segment(tmp_path, chain_id="a-chain-2", version=21, first=11, last=20)
    renamed = path.rename(tmp_path / "copy")

    assert stated_name(renamed) == SegmentName.parse("a-chain-2-21-11-20.zip")


def test_recorded_segments_say_the_names_that_their_nodes_gave_them() -> None:
    paths = [path for folder in all_shared_segments() for path in folder.glob("*.zip")]

    assert [stated_name(path).file_name for path in paths] == [path.name for path in paths]


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    for metadata in ({"ChainID": "../x"}, {"HeightTo": 0}, {"DatabaseVersion": 1.5}):
        with pytest.raises(SegmentError):
            stated_name(build_segment(tmp_path, last=10, metadata=metadata))
