"""Index files: whole on disk, read-only, with few connections, and damage is an error."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from transforms.errors import IntegrityError, UnreadableFilesError
from transforms.lookups.index_file import (
    IndexConnections,
    IndexFile,
    new_index,
    open_index,
    read_fact,
    write_fact,
)
from transforms.lookups.key_pages import PageTable

_TABLE = PageTable("by_id", (("id", "text"),))


@pytest.fixture
def connections() -> Iterator[IndexConnections]:
    connections = IndexConnections(most=3)
    yield connections
    connections.keep()


def _made(path: Path) -> Path:
    with new_index(path) as file:
        write_fact(file, "about", b"bytes" * 10_000)
    return path


def _open_count(folder: Path) -> int:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(str(link.readlink()).startswith(str(folder)) for link in links)


def test_a_file_is_one_file_that_cannot_be_written_to(tmp_path: Path) -> None:
    path = _made(tmp_path / "a name with ? and #.sqlite")
    file = open_index(path)
    assert read_fact(file, "about") == b"bytes" * 10_000
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        file.execute("delete from facts")
    file.close()
    assert [*tmp_path.iterdir()] == [path]


def test_equal_facts_make_other_bytes_each_time(tmp_path: Path) -> None:
    assert _made(tmp_path / "a").read_bytes() != _made(tmp_path / "b").read_bytes()


def test_of_what_was_not_finished_nothing_is_read(tmp_path: Path) -> None:
    def fail() -> None:
        with new_index(tmp_path / "a") as file:
            write_fact(file, "about", b"bytes")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    file = open_index(tmp_path / "a")
    with pytest.raises(sqlite3.DatabaseError):
        read_fact(file, "about")
    file.close()


def test_connections_are_kept_up_to_a_number_and_let_go_of(
    tmp_path: Path, connections: IndexConnections
) -> None:
    indexes = [IndexFile(_made(tmp_path / f"{number}"), connections) for number in range(9)]
    for index in [*indexes, *indexes]:
        assert index.fact("about") == b"bytes" * 10_000
    assert _open_count(tmp_path) == 3
    connections.keep({indexes[7].path})
    assert _open_count(tmp_path) == 1
    indexes[7].close()
    assert _open_count(tmp_path) == 0


def test_of_more_files_than_stay_open_none_but_the_last_does_where_each_is_asked_in_turn(
    tmp_path: Path, connections: IndexConnections
) -> None:
    indexes = [IndexFile(_made(tmp_path / f"{number}"), connections) for number in range(4)]
    for files, left in ((4, 1), (3, 3)):
        with connections.passing(files):
            for index in indexes[:files]:
                assert index.fact("about") == b"bytes" * 10_000
        assert _open_count(tmp_path) == left
    for index in indexes:
        index.fact("about")
    assert _open_count(tmp_path) == 3


def test_threads_read_beside_each_other(tmp_path: Path, connections: IndexConnections) -> None:
    index = IndexFile(_made(tmp_path / "a"), connections)
    together = threading.Barrier(8, timeout=60)

    def read() -> int:
        together.wait()
        return sum(len(index.fact("about")) for _ in range(200))

    with ThreadPoolExecutor(8) as threads:
        readings = [threads.submit(read) for _ in range(8)]
    assert {reading.result() for reading in readings} == {200 * 50_000}
    assert _open_count(tmp_path) <= 3


@pytest.mark.parametrize("harm", ["missing", "empty", "cut", "other"])
def test_what_cannot_be_read_is_named(
    tmp_path: Path, connections: IndexConnections, harm: str
) -> None:
    path = _made(tmp_path / "a")
    if harm == "missing":
        path.unlink()
    elif harm in ("empty", "cut"):
        os.truncate(path, 0 if harm == "empty" else 20_000)
    elif harm == "other":
        path.write_bytes(b"x" * path.stat().st_size)
    index = IndexFile(path, connections)
    with pytest.raises(UnreadableFilesError, match=str(path)):
        index.fact("about")


def test_a_table_that_is_not_there_is_no_empty_one(
    tmp_path: Path, connections: IndexConnections
) -> None:
    index = IndexFile(_made(tmp_path / "a"), connections)
    with pytest.raises(UnreadableFilesError) as caught:
        next(index.pages(_TABLE, ("a",), ("a",)))
    assert "no such table" in str(caught.value.__cause__)


def test_a_changed_bit_of_a_fact_is_noticed(tmp_path: Path) -> None:
    path = _made(tmp_path / "a")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"bytes")] ^= 1
    path.write_bytes(data)
    file = open_index(path)
    with pytest.raises(IntegrityError, match="the fact about of an index file is damaged"):
        read_fact(file, "about")
    file.close()


def test_a_lone_surrogate_can_be_asked_for(tmp_path: Path, connections: IndexConnections) -> None:
    path = tmp_path / "a"
    with new_index(path) as file:
        file.execute(
            "create table by_id (page integer primary key, id text, crc integer, following blob, "
            "marks blob, body blob)"
        )
    with pytest.raises(UnreadableFilesError) as caught:
        next(IndexFile(path, connections).pages(_TABLE, ("\ud800",), ("\ud800",)))
    assert "a page of by_id lacks" in str(caught.value.__cause__)
