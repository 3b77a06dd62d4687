"""Key-ordered pages: every row that is asked for is in one of the pages, and no page lacks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.lookups.key_pages import (
    PAGE_ROWS,
    Key,
    PageTable,
    _pages_sql,
    page_rows,
    prove_pages,
    read_pages,
    row_sql,
    write_pages,
)

_TABLE = PageTable("made", (("name", "text"), ("time", "time")))
_BY_NAME = PageTable("by_name", (("name", "text"),))
_NAMES = st.text("ab\0é☃", max_size=12) | st.sampled_from(["aaaaaaaab", "aaaaaaaac", "\U0001f600"])
_ROWS = st.lists(
    st.tuples(st.tuples(_NAMES, st.integers(-3, 3)), st.integers(1, 150)), max_size=8
).map(lambda runs: [row for row, count in runs for _ in range(count)])
_Rows = list[list[object]]


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        yield con


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as file:
        yield file


def _source(con: Connection, rows: Sequence[tuple[str, int]]) -> str:
    con.execute("create or replace table rows (number integer, name varchar, time bigint)")
    if rows:
        names, times = zip(*rows, strict=True)
        con.execute(
            "insert into rows select unnest(range(len($1))), unnest($1::varchar[]), "
            "unnest($2::bigint[])",
            [names, times],
        )
    values = row_sql("number, name, time, true, null, '\"<' || name")
    return f"select name, time, {values} from rows order by name, time, number"


def _pages(
    file: sqlite3.Connection, table: PageTable, low: Key = (), high: Key = ()
) -> list[_Rows]:
    """The pages between two keys, which are the same in both directions."""
    pages = [*read_pages(file, table, low, high, descending=False)]
    assert [*read_pages(file, table, low, high, descending=True)] == pages[::-1]
    return pages


@given(rows=_ROWS, wanted=st.tuples(_NAMES, st.integers(-4, 4)), other=st.integers(-4, 4))
@settings(max_examples=80, deadline=None)
def test_all_rows_between_two_keys_are_in_the_pages_that_are_read(
    con: Connection, rows: list[tuple[str, int]], wanted: tuple[str, int], other: int
) -> None:
    with closing(sqlite3.connect(":memory:")) as file:
        write_pages(con, file, _TABLE, _source(con, rows))
        pages = _pages(file, _TABLE)
        assert [len(page) for page in pages[:-1]] == [PAGE_ROWS] * (len(pages) - 1)
        assert {row[0] for page in pages for row in page} == {*range(len(rows))}
        name, time = wanted
        for low, high in (
            ((name,), (name,)),
            ((name, min(time, other)), (name, max(time, other))),
            ((name, time), ()),
            ((), (name, time)),
        ):
            read = {row[0] for page in _pages(file, _TABLE, low, high) for row in page}
            assert read >= {
                row[0]
                for page in pages
                for row in page
                if tuple(row[1:3])[: len(low)] >= low
                and (not high or tuple(row[1:3])[: len(high)] <= high)
            }


def test_of_many_rows_one_page_or_two_have_a_key(con: Connection, file: sqlite3.Connection) -> None:
    names = [f"{number:08x}{'0' * 56}" for number in range(10_000)]
    write_pages(con, file, _BY_NAME, _source(con, [(name, 0) for name in names]))
    for number in (0, PAGE_ROWS - 1, PAGE_ROWS, 5000, 9999):
        pages = _pages(file, _BY_NAME, (names[number],), (names[number],))
        assert 1 <= len(pages) <= 2
        assert sum(row[1] == names[number] for page in pages for row in page) == 1


def test_of_many_keys_that_are_not_there_few_pages_are_inflated(
    con: Connection, file: sqlite3.Connection
) -> None:
    rows = [(f"{number:08x}", 0) for number in range(4000)]
    write_pages(con, file, _BY_NAME, _source(con, rows))
    others = ((f"{number:08x}x",) for number in range(4000))
    assert sum(len(_pages(file, _BY_NAME, key, key)) for key in others) < 60


def test_without_rows_there_is_a_page_without_rows(
    con: Connection, file: sqlite3.Connection
) -> None:
    write_pages(con, file, _TABLE, _source(con, []))
    assert _pages(file, _TABLE) == [[]]
    assert _pages(file, _TABLE, ("a",), ("a",)) == []


def test_rows_are_what_they_were(con: Connection, file: sqlite3.Connection) -> None:
    text = 'a"\\<é☃\0\n\x7f\U0001f600'
    write_pages(con, file, _TABLE, _source(con, [(text, -(2**63)), (text, 2**63 - 1)]))
    assert _pages(file, _TABLE) == [
        [
            [0, text, -(2**63), True, None, '"<' + text],
            [1, text, 2**63 - 1, True, None, '"<' + text],
        ]
    ]


def test_rows_in_another_order_are_refused(con: Connection, file: sqlite3.Connection) -> None:
    source = _source(con, [(f"{number % 7}", 0) for number in range(200)])
    with pytest.raises(IntegrityError, match="the rows of made are not in the order of their key"):
        write_pages(con, file, _TABLE, source.partition(" order by ")[0])


_CHANGES = [
    "update made set page = -1 where page = 0",
    "update made set page = 9 where page = 3",
    "update made set name = 'z' where page = 1",
    "update made set name = '0' where page = 2",
    "update made set time = 7 where page = 1",
    "update made set following = x'6e756c6c' where page = 1",
    "update made set marks = x'' where page = 1",
    "update made set crc = 0 where page = 3",
    "update made set body = x'0300' where page = 1",
    "delete from made where page = 0",
    "delete from made where page = 2",
    "delete from made where page = 3",
    "delete from made",
]


@pytest.mark.parametrize(
    "change",
    [
        *_CHANGES,
        "insert into made select page + 9, name, time, crc, following, marks, body from made",
        "update made set body = (select body from made where page = 0)",
    ],
)
def test_pages_that_do_not_follow_from_their_rows_are_found_out(
    con: Connection, file: sqlite3.Connection, change: str
) -> None:
    source = _source(con, [(f"{number:03}", number) for number in range(200)])
    write_pages(con, file, _TABLE, source)
    assert prove_pages(con, file, _TABLE, source)
    file.execute(change)
    assert not prove_pages(con, file, _TABLE, source)


@pytest.mark.parametrize(
    "change",
    ["update rows set time = time + 1 where number = 7", "delete from rows where name > '150'"],
)
def test_rows_that_changed_do_not_make_the_same_pages(
    con: Connection, file: sqlite3.Connection, change: str
) -> None:
    source = _source(con, [(f"{number:03}", number) for number in range(200)])
    write_pages(con, file, _TABLE, source)
    con.execute(change)
    assert not prove_pages(con, file, _TABLE, source)


@pytest.mark.parametrize("change", _CHANGES)
def test_of_damaged_pages_no_row_lacks_without_an_error(
    con: Connection, file: sqlite3.Connection, change: str
) -> None:
    rows = [(f"{number:03}", number) for number in range(200)]
    write_pages(con, file, _TABLE, _source(con, rows))
    file.execute(change)
    noticed = 0
    for (name, _), (beyond, _) in pairwise(rows):
        for key in ((name,), (beyond, 10**6)):
            for descending in (False, True):
                wanted = {row[0] for row in rows if name <= row[0] <= key[0]}
                read: set[object] = set()
                try:
                    for page in read_pages(file, _TABLE, (name,), key, descending=descending):
                        read |= {row[1] for row in page}
                    assert read >= wanted
                except IntegrityError:
                    noticed += 1
    assert noticed
    with suppress(IntegrityError):
        assert sum(map(len, read_pages(file, _TABLE, (), (), descending=False))) == len(rows)


@pytest.mark.parametrize("body", [b"", b"no deflate", isal_zlib.compress(b"[1]\n[\n", 1, -15)])
def test_what_is_no_page_is_an_error(body: bytes) -> None:
    with pytest.raises(IntegrityError, match="a page of rows"):
        page_rows(body)
    assert page_rows(b"\x03\x00") == []


def test_of_a_page_rows_before_and_after_a_text_are_left_out(
    con: Connection, file: sqlite3.Connection
) -> None:
    names = ["ab", "abc", "é", 'a"b', "bab", "1", "ab", "ab"]
    write_pages(con, file, _BY_NAME, _source(con, [(name, 0) for name in names]))
    for name in names:
        (read,) = _pages(file, _BY_NAME, (name,), (name,))
        assert [row[1] for row in read if row[1] == name] == [name] * names.count(name)
        is_plain = name.isalnum() and name.isascii()
        assert len(read) == (names.count(name) if is_plain else len(names))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("key", [("a",), ("a", 1)])
def test_pages_are_found_by_the_index_of_their_keys(
    con: Connection, file: sqlite3.Connection, key: Key, descending: bool
) -> None:
    """As a row value the key must be a range of the index, not a filter over all pages."""
    write_pages(con, file, _TABLE, _source(con, []))
    sql = _pages_sql(_TABLE, len(key), descending=descending)
    steps = [row[-1] for row in file.execute(f"explain query plan {sql}", key)]
    assert any("COVERING INDEX made_key (" in step for step in steps)
    assert any("INTEGER PRIMARY KEY (rowid" in step for step in steps)
    assert not any("SCAN" in step.split(" ")[0] or "TEMP" in step for step in steps)
