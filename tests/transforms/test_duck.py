"""What DuckDB tells while it runs a statement."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from transforms.duck import reporting, working_connection

_SECONDS = 60


def test_a_running_statement_reports_how_much_of_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transforms.duck._REPORT_SECONDS", 0.01)  # statements may be that short
    shares: list[float] = []
    with working_connection(tmp_path) as con:
        con.execute("create table numbers as from range(10000000) as numbers(n)")
        ends = time.monotonic() + _SECONDS
        while not any(0 < share < 1 for share in shares) and time.monotonic() < ends:
            with reporting(con, shares.append):
                con.execute("create or replace table texts as select md5(n::varchar) from numbers")
    assert any(0 < share < 1 for share in shares)
    assert all(0 <= share <= 1 for share in shares)
