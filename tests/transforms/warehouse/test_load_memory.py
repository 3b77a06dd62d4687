"""What a load may take of memory, whatever a segment holds."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.load import load
from tests.benchmarks.measure import measured
from tests.segments_kit import build_segment, pg_csv, table_rows

_MOST_BYTES = 800 * 2**20
_ROWS, _CELL_BYTES = 40_000, 4_000


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
