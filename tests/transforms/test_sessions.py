"""One DuckDB for many readers: attached files, prepared statements, interrupts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from transforms.errors import UnreadableFilesError
from transforms.sessions import InterruptedQueryError, Session, SessionPool

_SLOW = "select count(*) from range(100000000) a, range(1000) b where a.range % 7 = b.range"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionPool]:
    pool = SessionPool(tmp_path_factory.mktemp("scratch"))
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def session(pool: SessionPool) -> Iterator[Session]:
    with pool.session() as session:
        yield session


def _file(path: Path, *numbers: int) -> Path:
    with duckdb.connect(path) as con:
        con.execute("create table numbers (n integer)")
        con.executemany("insert into numbers values (?)", [[number] for number in numbers])
    return path


@given(st.text())
def test_any_text_is_bound_as_it_is(session: Session, text: str) -> None:
    assert session.rows("select $1::varchar", [text]) == [(text,)]


@each_of(
    ("sql", "values", "row"),
    [
        (
            "select $1::varchar || $2::varchar",
            ["'; drop table x --", '"$1"'],
            '\'; drop table x --"$1"',
        ),
        ("select $1::bigint", [-5], -5),
        ("select $1::bigint", [2**63 - 1], 2**63 - 1),
        ("select $1::varchar", ["\ud800"], "?"),
        ("select 7", [], 7),
    ],
)
def test_values_of_every_kind_are_bound(
    session: Session, sql: str, values: list[Any], row: Any
) -> None:
    assert session.rows(sql, values) == [(row,)]


def test_the_session_that_came_back_last_is_lent_first(pool: SessionPool) -> None:
    with pool.session() as one, pool.session() as two:
        assert one is not two
    with pool.session() as again:
        assert again is one


def test_a_file_can_be_asked_until_it_is_detached(pool: SessionPool, tmp_path: Path) -> None:
    path = _file(tmp_path / "a.duckdb", 1, 2)
    one, other = pool.attach(path), pool.attach(path)
    with pool.session() as session:
        pool.detach(one)
        pool.detach(one)
        assert session.rows(f"select sum(n)::integer from {other}.numbers") == [(3,)]
        with pytest.raises(duckdb.CatalogException):
            session.rows(f"from {one}.numbers")
    pool.detach(other)


def test_a_file_that_took_anothers_place_is_another_beside_it(
    pool: SessionPool, tmp_path: Path
) -> None:
    path = _file(tmp_path / "e.duckdb", 1)
    one = pool.attach(path)
    _file(tmp_path / "new.duckdb", 2).replace(path)
    other = pool.attach(path)
    with pool.session() as session:
        for alias, number in ((one, 1), (other, 2), (one, 1)):
            assert session.rows(f"from {alias}.numbers") == [(number,)]
    pool.detach(one)
    pool.detach(other)


def test_an_error_of_duckdb_names_the_files_of_the_statement(
    pool: SessionPool, tmp_path: Path
) -> None:
    paths = [tmp_path / "one.duckdb", tmp_path / "two.duckdb"]
    for path in paths:
        with duckdb.connect(path) as con:
            con.execute("create table numbers as select random() as n from range(300000)")
    with paths[1].open("r+b") as file:
        file.seek(300_000)
        file.write(bytes(1000))
    sound, bad = (pool.attach(path) for path in paths)
    with pool.session() as session, pytest.raises(UnreadableFilesError) as caught:
        session.rows(f"select sum(n) from (from {sound}.numbers union all from {bad}.numbers)")
    assert caught.value.paths == {*paths}
    assert isinstance(caught.value.__cause__, duckdb.Error)
    for alias in (sound, bad):
        pool.detach(alias)


def test_an_attached_file_may_be_removed(pool: SessionPool, tmp_path: Path) -> None:
    path = _file(tmp_path / "b.duckdb", *range(10))
    alias = pool.attach(path)
    path.unlink()
    with pool.session() as session:
        assert session.rows(f"select count(*) from {alias}.numbers") == [(10,)]
    pool.detach(alias)


def test_a_file_that_is_not_there_is_an_error_and_nothing_is_attached(
    pool: SessionPool, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        pool.attach(tmp_path / "none.duckdb")


def test_a_file_that_is_no_database_is_named(pool: SessionPool, tmp_path: Path) -> None:
    path = tmp_path / "damaged.duckdb"
    path.write_bytes(bytes(20_000))
    with pytest.raises(UnreadableFilesError) as caught:
        pool.attach(path)
    assert caught.value.paths == {path}


def test_an_interrupt_of_a_user_who_is_gone_stops_nobody(pool: SessionPool) -> None:
    with pool.session() as session:
        pass
    session.interrupt()
    with pool.session() as again:
        assert again is session
        assert again.rows("select 1") == [(1,)]


def test_an_interrupt_at_any_moment_ends_what_is_just_beginning(pool: SessionPool) -> None:
    moments = random.Random(3)
    for _ in range(100):
        with pool.session() as session:
            timer = Timer(moments.uniform(0, 0.0015), session.interrupt)
            timer.start()
            with pytest.raises(InterruptedQueryError):
                session.rows("select max(md5(range::varchar)) from range(10000000000)")
            timer.join()


def test_an_interrupt_ends_what_runs_and_what_would_follow(pool: SessionPool) -> None:
    over = Event()

    def interrupt(session: Session) -> None:
        while not over.is_set():
            session.interrupt()

    with pool.session() as session, ThreadPoolExecutor(1) as thread:
        thread.submit(interrupt, session)
        try:
            with pytest.raises(InterruptedQueryError):
                session.rows(_SLOW)
        finally:
            over.set()
        with pytest.raises(InterruptedQueryError):
            session.rows("select 1")
    with pool.session() as again:
        assert again is session
        assert again.rows("select 1") == [(1,)]


def test_sessions_work_beside_each_other(pool: SessionPool, tmp_path: Path) -> None:
    path = _file(tmp_path / "c.duckdb", *range(100))
    alias = pool.attach(path)

    def ask(n: int) -> int:
        with pool.session() as session:
            ((found,),) = session.rows(f"select n from {alias}.numbers where n = $1", [n])
            return int(found)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(100))) == list(range(100))
    pool.detach(alias)


def test_a_closed_pool_lets_its_readers_finish(tmp_path: Path) -> None:
    pool = SessionPool(tmp_path)
    path = _file(tmp_path / "d.duckdb", 1)
    alias = pool.attach(path)
    with pool.session() as session:
        pool.close()
        assert session.rows(f"select n from {alias}.numbers") == [(1,)]
        pool.detach(alias)
    with pytest.raises(duckdb.ConnectionException), pool.session() as late:
        late.rows("select 1")
