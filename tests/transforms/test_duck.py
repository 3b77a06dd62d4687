"""What DuckDB tells while it runs a statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import NoReturn

import pytest

from transforms.duck import (
    Connection,
    file_connection,
    new_database,
    read_only_connection,
    working_connection,
)
from transforms.duck_errors import Error

_SECONDS = 60
_COPIES = 60
_SORT = """
    select count(*)
    from (select md5(range::varchar) as text from range(1500000) order by text limit 1500000)
"""


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
        assert last.execute(_SORT).fetchone() == (1_500_000,)


def test_an_instance_has_the_memory_and_the_folder_of_the_block_that_has_it(
    tmp_path: Path,
) -> None:
    settings = "select current_setting('memory_limit'), current_setting('temp_directory')"
    with file_connection() as con:
        usual = con.execute(settings).fetchone()
    for name, limit, shown in (("a", "60MB", "57.2 MiB"), ("b", "90MB", "85.8 MiB")):
        folder = tmp_path / name
        with working_connection(folder, size=1000, memory_limit=limit) as other:
            assert other is con
            assert other.execute(settings).fetchone() == (shown, str(folder))
    with file_connection() as last:
        assert last is con
        assert last.execute(settings).fetchone() == usual


def test_a_file_is_let_go_of_and_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "small.duckdb"
    for number in (1, 2):
        path.unlink(missing_ok=True)
        with working_connection(tmp_path) as con, new_database(con, path, "fresh", 0):
            con.execute(f"create table fresh.numbers as select {number} as n")
        with read_only_connection(path, threads=1) as reader:
            assert reader.execute("from numbers").fetchone() == (number,)
            reader.execute("create temp table mine as select 1")
    with file_connection() as con:
        assert con is not reader


def test_a_forked_process_reads_files_by_an_instance_of_its_own() -> None:
    with file_connection() as con:
        con.execute("select 1")
        with get_context("fork").Pool(1) as pool:
            assert pool.apply(_one) == 1


@pytest.mark.parametrize("is_interrupted", [False, True], ids=["fails", "is interrupted"])
def test_a_copy_to_parquet_ends_where_its_query_does(tmp_path: Path, is_interrupted: bool) -> None:
    process = get_context("fork").Process(target=_end_copies, args=(tmp_path, is_interrupted))
    process.start()
    process.join(_SECONDS)
    is_waiting = process.is_alive()
    process.kill()
    process.join()
    assert not is_waiting
    assert process.exitcode == 0


def _end_copies(folder: Path, is_interrupted: bool) -> None:
    """Let as many copies fail as show, where one in twenty waits for ever, that none does."""
    last = "n" if is_interrupted else "case when n = 999999 then error('late') else n end"
    rows = f"select {last} as n, hash(n) as h from range(1000000) as numbers(n)"
    for number in range(_COPIES):
        after = 0.005 * (1 + number % 20) if is_interrupted else _SECONDS
        with pytest.raises(Error), file_connection() as con, _interrupting(con, after):
            _execute_for_ever(con, f"copy ({rows}) to '{folder}/rows.parquet' (format parquet)")


def _execute_for_ever(con: Connection, statement: str) -> NoReturn:
    while True:
        con.execute(statement)


@contextmanager
def _interrupting(con: Connection, seconds: float) -> Iterator[None]:
    """Interrupt each `seconds`: what is asked for between two statements is lost."""
    ended = Event()

    def interrupt() -> None:
        while not ended.wait(seconds):
            con.interrupt()

    thread = Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _one() -> object:
    with file_connection() as con:
        return con.execute("select 1").fetchall()[0][0]
