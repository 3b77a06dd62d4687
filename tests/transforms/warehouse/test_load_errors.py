"""What DuckDB says of one segment's content keeps that segment out and no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import pytest

from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import (
    MemorySink,
    exact_tables,
    history_segment,
    load_folder,
    quarantine_reasons,
)
from transforms.segments.segment_zip import TableFile
from transforms.warehouse.warehouse_address import open_warehouse

_CHAIN = "kit-chain"
_LAST = 12
_WRONG = {
    2: "select 'x'::integer",
    3: "select 9223372036854775807 + 1",
    5: "select 'x'::json",
    9: "select 1 for update",
    12: "create temp table t (a integer not null); insert into t values (null)",
}


class _AskingSink(MemorySink):
    """A sink that asks DuckDB something wrong about the blocks of segments, by the first one."""

    def __init__(self, statements: Mapping[int, str]) -> None:
        super().__init__()
        self.writes = 0
        self._statements = statements

    def write(self, csv: TableFile, body: Iterable[bytes], scratch: Path) -> None:
        super().write(csv, body, scratch)
        if csv.table == "blocks":
            self.writes += 1
            if statement := self._statements.get(csv.segment.blocks.first):
                duckdb.connect().execute(statement)


def test_whatever_duckdb_says_of_a_segment_its_neighbours_are_loaded_in_few_tries(
    tmp_path: Path,
) -> None:
    for first in range(1, _LAST + 1):
        history_segment(tmp_path / "s", first=first, last=first)
    asking = _AskingSink(_WRONG)

    report = load_folder(tmp_path / "w", tmp_path / "s", asking)

    names = [f"{_CHAIN}-1-{first}-{first}.zip" for first in _WRONG]
    assert [one.key for one in report.failures] == names
    for name, refusal in zip(names, report.failures, strict=True):
        assert refusal.reason.startswith(f"{name} cannot be loaded: DuckDB says ")
    assert {blocks.first for blocks in report.loaded} == {*range(1, _LAST + 1)} - {*_WRONG}
    assert [*quarantine_reasons(open_warehouse(tmp_path / "w"))] == sorted(names)
    assert asking.writes <= 4 * _LAST


def test_what_the_machine_says_ends_the_load(tmp_path: Path) -> None:
    history_segment(tmp_path / "s", first=1, last=1)
    asking = _AskingSink({1: f"from read_csv('{tmp_path}/nothing')"})

    with pytest.raises(duckdb.IOException):
        load_folder(tmp_path / "w", tmp_path / "s", asking)

    assert list(open_warehouse(tmp_path / "w").snapshot().quarantine) == []


def test_a_cell_of_140_mb_is_loaded_like_any_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cell = "0123456 " * (140_000_000 // 8)
    history_segment(tmp_path / "s", first=1, last=1)
    long = history_segment(
        tmp_path / "s",
        first=2,
        last=2,
        tables={"orders": table_rows("orders", {}, {"reference": cell}, {}, first=2)},
    )

    report = load_folder(tmp_path / "w", tmp_path / "s")

    assert report.failures == []
    assert all(exact_tables(open_warehouse(tmp_path / "w"), long).values())
    assert "an index file was not made" in caplog.text
