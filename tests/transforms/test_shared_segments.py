"""Recorded segments, real and hostile: all load, and every table comes back to the byte.

The expected bytes are the ZIP entries as the standard library reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.pg_csv import decode, pg_csv
from tests.segments_kit import all_shared_segments
from tests.transforms.warehouse_kit import Shelf, blocks_of, load_folder, render
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.load import LoadReport
from transforms.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class _Loaded:
    segments: list[Path]
    warehouse: Warehouse
    report: LoadReport
    shelf: Shelf


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[_Loaded]:
    """Every recorded folder in a warehouse of its own."""
    histories = []
    for folder in all_shared_segments():
        warehouse, shelf = Warehouse(tmp_path_factory.mktemp("warehouse")), Shelf()
        report = load_folder(warehouse.root, folder, shelf)
        segments = sorted(folder.glob("*.zip"), key=blocks_of)
        histories.append(_Loaded(segments, warehouse, report, shelf))
    return histories


def _entries(segment: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    with ZipFile(segment) as archive:
        for name in archive.namelist():
            if name.startswith(f"{folder}/"):
                yield name.removeprefix(f"{folder}/"), archive.read(name)


def test_every_recorded_segment_is_loaded(loaded: list[_Loaded]) -> None:
    for history in loaded:
        assert history.report.failures == []
        assert history.warehouse.quarantined() == []
        blocks = {blocks_of(segment) for segment in history.segments}
        assert {receipt.blocks for receipt in history.report.receipts} == blocks


def test_every_history_table_was_rendered_to_its_bytes(loaded: list[_Loaded]) -> None:
    compared = 0
    for history in loaded:
        for segment in history.segments:
            for table, data in _entries(segment, "history"):
                if table in HISTORY_TABLES:
                    assert history.shelf.csvs[blocks_of(segment), table] == data
                    compared += 1
    assert compared == len(HISTORY_TABLES) * sum(len(history.segments) for history in loaded)


def test_every_table_of_a_newest_segment_is_rendered_again(loaded: list[_Loaded]) -> None:
    for history in loaded:
        newest = history.segments[-1]
        for table, data in _entries(newest, "history"):
            if table in HISTORY_TABLES and data.count(b"\n") > 1:
                assert render(history.warehouse, blocks_of(newest), table) == data


def test_every_cell_of_every_table_is_shown_as_it_was(loaded: list[_Loaded]) -> None:
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
                        [blocks_of(segment).first],
                    ).fetchall()
                    assert pg_csv(header, shown) == data


def test_every_volume_verifies(loaded: list[_Loaded]) -> None:
    for history in loaded:
        results = list(history.warehouse.verify())
        assert len(results) > len(HISTORY_TABLES) * len(history.segments)
        assert [problem for _, problem in results if problem] == []


def test_loading_again_finds_nothing_to_do(loaded: list[_Loaded]) -> None:
    for history in loaded:
        report = load_folder(history.warehouse.root, history.segments[0].parent)
        assert (report.receipts, report.failures) == ([], [])
