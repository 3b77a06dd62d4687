"""What DuckDB tells while it runs a statement."""

from __future__ import annotations

import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from transforms.duck import (
    Error,
    file_connection,
    reporting,
    working_connection,
)

_SECONDS = 60
_SORT = """
    select count(*)
    from (select md5(range::varchar) as text from range(3000000) order by text limit 3000000)
"""


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


def test_a_connection_to_read_files_leaves_nothing_and_survives_a_failed_one(
    tmp_path: Path,
) -> None:
    with file_connection() as con:
        con.execute("set TimeZone = 'Asia/Kolkata'")
    with pytest.raises(Error), file_connection() as con:
        con.execute(f"from read_parquet('{tmp_path}/absent.parquet')")
    with file_connection() as con, file_connection() as other:
        assert con.execute("select current_setting('TimeZone')").fetchone() == ("UTC",)
        assert other.execute("select 1").fetchone() == (1,)


def test_an_instance_that_spilled_or_failed_renders_nothing_else(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c", "d")]
    for folder in folders:
        folder.mkdir()
    with working_connection(folders[0], size=1000, memory_limit="60MB") as con:
        con.execute("select 1")
    with working_connection(folders[1], size=1000, memory_limit="60MB") as again:
        assert again is con
        again.execute(_SORT)
        assert list(folders[1].iterdir())
    with working_connection(folders[2], size=1000, memory_limit="60MB") as other:
        assert other is not con
        assert other.execute("select current_setting('TimeZone')").fetchone() == ("UTC",)
    with (
        pytest.raises(Error),
        working_connection(folders[2], size=1000, memory_limit="60MB") as failing,
    ):
        failing.execute("from nothing")
    assert failing is other
    with working_connection(folders[3], size=10**7, memory_limit="60MB") as large:
        large.execute("select 1")
    with working_connection(folders[3], size=1000, memory_limit="60MB") as last:
        assert last is not large
        assert last is not other
        assert last.execute(_SORT).fetchone() == (3_000_000,)


def test_a_forked_process_reads_files_by_an_instance_of_its_own() -> None:
    with file_connection() as con:
        con.execute("select 1")
        with get_context("fork").Pool(1) as pool:
            assert pool.apply(_one) == 1


def _one() -> object:
    with file_connection() as con:
        return con.execute("select 1").fetchall()[0][0]
