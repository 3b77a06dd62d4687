"""What a load may take of memory, whatever a segment holds."""

from __future__ import annotations

from pathlib import Path

from exporters.zips.staging import PartStage
from tests.benchmarks.load import load
from tests.benchmarks.measure import measured
from tests.segments_kit import build_segment, pg_csv, table_rows
from tests.transforms.warehouse_kit import history_segment
from transforms.block_range import BlockRange
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.warehouse_address import open_warehouse

_MOST_BYTES = 800 * 2**20
_ROWS, _CELL_BYTES = 40_000, 4_000
_LARGE_ROWS, _LARGE_BYTES = 30, 4 * 10**6
_LITTLE_MB, _ENOUGH_MB = 50, 1000


def test_a_small_zip_with_many_large_cells_is_loaded_in_bounded_memory(tmp_path: Path) -> None:
    """160 MB of withdrawals in a ZIP of 1 MB, each of them in three tables of pages."""
    cell = f'{{"a": "{"b" * _CELL_BYTES}"}}'
    text = pg_csv(*table_rows("withdrawals", {"id": "\\xff", "ext": cell}))
    header, _, row = text.partition(b"\n")
    assert row.count(b"\\xff") == 1
    rows = b"".join(row.replace(b"\\xff", b"\\x%08x" % number) for number in range(_ROWS))
    segment = build_segment(tmp_path / "s", last=5, tables={"withdrawals": header + b"\n" + rows})
    cost = measured(load, segment.parent, tmp_path / "home", [segment.name])
    assert cost.peak < _MOST_BYTES, f"{cost.peak / 2**20:.0f} MiB"


def test_a_segment_that_takes_too_much_memory_holds_up_no_other_and_more_memory_loads_it(
    tmp_path: Path,
) -> None:
    """Rows of a sorted table that are too large for what a load may use, between two segments."""
    large = table_rows("orders", *({"reference": "x" * _LARGE_BYTES} for _ in range(_LARGE_ROWS)))
    history_segment(tmp_path / "s", first=1, last=2)
    history_segment(tmp_path / "s", first=3, last=4, tables={"orders": large})
    history_segment(tmp_path / "s", first=5, last=6)
    refusals: list[str] = []
    for memory_mb in (_LITTLE_MB, _LITTLE_MB, _ENOUGH_MB):
        warehouse = open_warehouse(tmp_path / "w", memory_mb=memory_mb)
        source = Source(FolderStore(tmp_path / "s"))
        survey = warehouse.survey(source)
        warehouse.record_refusals(survey)
        report = warehouse.load(source, survey.pending, PartStage(tmp_path / "parts"))
        refusals += [failure.reason for failure in report.failures]
        held = [
            blocks
            for blocks in (BlockRange(1, 2), BlockRange(3, 4), BlockRange(5, 6))
            if warehouse.loaded_catalog().holds(blocks)
        ]
        if memory_mb == _LITTLE_MB:
            assert held == [BlockRange(1, 2), BlockRange(5, 6)]
            assert [file.reason for file in warehouse.snapshot().quarantine] == refusals
    assert len(refusals) == 1, "tried again with as little as before"
    assert f"a load may use, {_LITTLE_MB} MB" in refusals[0]
    assert "STRATA_MEMORY_MB" in refusals[0]
    assert held == [BlockRange(1, 2), BlockRange(3, 4), BlockRange(5, 6)]
    assert list(warehouse.snapshot().quarantine) == []
