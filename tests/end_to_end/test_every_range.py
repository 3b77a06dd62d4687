"""Every table over every aligned range of a generated history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.ranges_kit import TABLES, Loaded, assert_every_range_is_exact, load
from tests.segments_kit import build_segment, table_rows

HISTORY = ((1, 1, 700), (1, 701, 1000), (2, 1001, 1100), (6, 1101, 1101), (6, 1102, 2000))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A history of uneven segments over three schema versions, one of which renames columns."""
    folder = tmp_path_factory.mktemp("generated")
    for version, first, last in HISTORY:
        tables = {
            table: table_rows(table, {}, {}, {}, version=version, first=first)
            for table in TABLES
            if table != "blocks"
        }
        build_segment(folder, version=version, first=first, last=last, tables=tables)
    return load(folder, tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("table", TABLES)
def test_every_aligned_range_of_a_generated_history_is_exact(
    generated: Loaded, table: str, tmp_path: Path
) -> None:
    assert_every_range_is_exact(generated, table, tmp_path)
