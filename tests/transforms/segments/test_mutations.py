"""Damaged segment ZIPs: a few hundred here, as many as asked for by `make fault-test`."""

from __future__ import annotations

import errno
import io
import struct
import zipfile
from pathlib import Path

import pytest

from tests.mutated_zips import MUTATIONS, mutations, prepared, try_mutations
from tests.transforms.warehouse_kit import (
    blocks_of,
    exact_tables,
    history_segment,
    load_folder,
    state_segment,
)
from transforms.errors import SegmentError
from transforms.warehouse.warehouse_address import open_warehouse


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    return state_segment(tmp_path / "segments", last=6)


def test_damage_is_refused_in_words_or_changes_nothing(segment: Path, tmp_path: Path) -> None:
    counts = try_mutations(segment, tmp_path, 30 * len(MUTATIONS))
    assert counts.total() == 30 * len(MUTATIONS)
    assert counts["refused"] > counts.total() / 2
    assert counts["as before"] > 0


def _end_record(data: bytes, offset: int, number: int) -> bytes:
    """Put a number of 4 bytes into the end of central directory record."""
    at = data.rindex(b"PK\5\6") + offset
    return data[:at] + struct.pack("<I", number) + data[at + 4 :]


@pytest.mark.parametrize("offset", [12, 16])
@pytest.mark.parametrize("number", [0, 1, 2**16, 2**31, 2**32 - 1])
def test_a_directory_elsewhere_is_refused(
    segment: Path, tmp_path: Path, offset: int, number: int
) -> None:
    """Its size and place, which once made `zipfile` seek to where no file has a byte."""
    segment.write_bytes(_end_record(segment.read_bytes(), offset, number))
    with pytest.raises(SegmentError, match=segment.name):
        prepared(segment, tmp_path / "scratch")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 20])
def test_an_error_of_the_machine_is_not_blamed_on_the_file(
    segment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    class Failing(io.BytesIO):
        """A file whose disk fails at one of its reads."""

        reads = 0

        def read(self, size: int | None = -1) -> bytes:
            Failing.reads += 1
            if Failing.reads == number:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(size)

    whole = zipfile.ZipFile
    monkeypatch.setattr(zipfile, "ZipFile", lambda path: whole(Failing(path.read_bytes())))
    with pytest.raises(OSError, match="Input/output error") as caught:
        prepared(segment, tmp_path / "scratch")
    assert caught.value.errno == errno.EIO


def test_the_neighbours_of_damaged_segments_load(tmp_path: Path) -> None:
    """Every second segment of a source is damaged, each in another way."""
    count = 2 * len(MUTATIONS) + 1
    paths = [history_segment(tmp_path / "s", first=n, last=n) for n in range(1, count + 1)]
    damaged = {}
    for number, path in enumerate(paths[1::2]):
        *_, (how, data) = mutations(path.read_bytes(), number + 1, seed=5)
        path.write_bytes(data)
        damaged[path.name] = how
    report = load_folder(tmp_path / "w", tmp_path / "s")
    refused = {refusal.key for refusal in report.failures}
    assert refused <= damaged.keys()
    assert len(refused) > len(damaged) / 2
    assert {*report.loaded} == {blocks_of(path) for path in paths if path.name not in refused}
    warehouse = open_warehouse(tmp_path / "w")
    assert all(all(exact_tables(warehouse, path).values()) for path in paths[::2])
