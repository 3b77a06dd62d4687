"""Recorded segments, real and hostile: all load, and every table comes back to the byte.

They are loaded once: the proof of the load and the exports over every range share it.
The expected bytes are the ZIP entries as the standard library reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.end_to_end.ranges_kit import (
    TABLES,
    Loaded,
    SourceSegment,
    assert_every_range_is_exact,
    loaded_history,
)
from tests.pg_csv import decode, pg_csv
from tests.shared_folders import recorded_sites
from tests.transforms.warehouse_kit import load_folder, render, verify
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.verification import Kind, Verification


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[Loaded]:
    """Every folder of recorded segments in a warehouse of its own."""
    return [loaded_history(site) for site in recorded_sites(tmp_path_factory.mktemp("homes"))]


def _entries(segment: SourceSegment, folder: str) -> Iterator[tuple[str, bytes]]:
    with ZipFile(segment.path) as archive:
        for name in archive.namelist():
            if name.startswith(f"{folder}/"):
                yield name.removeprefix(f"{folder}/"), archive.read(name)


def test_every_recorded_segment_is_loaded(loaded: list[Loaded]) -> None:
    for history in loaded:
        assert list(history.warehouse.snapshot().quarantine) == []
        blocks = {segment.blocks for segment in history.segments}
        assert {receipt.blocks for receipt in history.warehouse.receipts()} == blocks
        assert history.warehouse.catalog().foreign_rows() == []


def test_every_history_table_was_rendered_to_its_bytes(loaded: list[Loaded]) -> None:
    compared = 0
    for history in loaded:
        for segment in history.segments:
            for table, data in _entries(segment, "history"):
                if table in HISTORY_TABLES:
                    with ZipFile(history.stage.path(segment.chain, table, segment.blocks)) as part:
                        assert part.read(part.namelist()[0]) == data
                    compared += 1
    assert compared == len(HISTORY_TABLES) * sum(len(history.segments) for history in loaded)


def test_every_table_of_a_newest_segment_is_rendered_again(loaded: list[Loaded]) -> None:
    for history in loaded:
        newest = history.segments[-1]
        for table, data in _entries(newest, "history"):
            if table in HISTORY_TABLES and data.count(b"\n") > 1:
                assert render(history.warehouse, newest.blocks, table) == data


def test_every_cell_of_every_table_is_shown_as_it_was(loaded: list[Loaded]) -> None:
    """All tables of history of all segments, and the current state of the newest."""
    for history in loaded:
        with history.warehouse.connect() as con:
            for segment in history.segments:
                tables = dict(_entries(segment, "history"))
                if segment is history.segments[-1]:
                    tables |= dict(_entries(segment, "currentstate"))
                for table, data in tables.items():
                    header = decode(data.partition(b"\n")[0] + b"\n")[0]
                    names = ", ".join(f'"{name}"' for name in header)
                    shown = con.execute(
                        f'select {names} from exact."{table}" where _segment = ? order by _row',
                        [segment.first],
                    ).fetchall()
                    assert pg_csv(header, shown) == data


def test_every_volume_of_the_hostile_segments_verifies(loaded: list[Loaded]) -> None:
    """Those of the others were proven when they were loaded, by the same reading."""
    *_, hostile = loaded
    verification = Verification()
    assert list(verify(hostile.warehouse, verification)) == []
    assert verification.read[Kind.VOLUMES] == len(
        hostile.warehouse.loaded_catalog().snapshot.volumes
    )


def test_loading_again_finds_nothing_to_do(loaded: list[Loaded]) -> None:
    for history in loaded:
        report = load_folder(history.warehouse.cache, history.segments[0].path.parent)
        assert (report.loaded, report.failures) == ([], [])


@pytest.mark.parametrize("table", TABLES)
def test_every_aligned_range_of_the_recorded_segments_is_exact(
    loaded: list[Loaded], table: str, tmp_path: Path
) -> None:
    for number, history in enumerate(loaded):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert_every_range_is_exact(history, table, folder)
