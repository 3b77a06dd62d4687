"""Key-ordered pages: every row that is asked for lies in one of the pages that the index names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.lookups.key_pages import (
    PAGE_ROWS,
    PageIndex,
    PageTable,
    held_index,
    index_sections,
    inflate,
    page_rows,
    prove_pages,
    row_sql,
    write_pages,
)
from transforms.mapped_files import Mapped, packed, prefix

_TABLE = PageTable("made", (("name", "text"), ("time", "time")))
_BY_ID = PageTable("by_id", (("name", "prefix"),))
_NAMES = st.text("ab\0é☃", max_size=12) | st.sampled_from(["aaaaaaaab", "aaaaaaaac", "\U0001f600"])
_ROWS = st.lists(
    st.tuples(st.tuples(_NAMES, st.integers(-3, 3)), st.integers(1, 150)), max_size=8
).map(lambda runs: [row for row, count in runs for _ in range(count)])


@pytest.fixture
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        con.execute("attach ':memory:' as volume")
        con.execute("create schema volume.strata")
        yield con


@pytest.fixture(scope="module")
def memory() -> Iterator[Connection]:
    with duckdb.connect() as con:
        yield con


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


def _made(con: Connection, table: PageTable, rows: Sequence[tuple[str, int]]) -> str:
    source = _source(con, rows)
    con.execute("detach database if exists volume")
    con.execute("attach ':memory:' as volume")
    con.execute("create schema volume.strata")
    write_pages(con, "volume", table, source)
    return source


def _index(con: Connection, table: PageTable) -> PageIndex:
    found = con.execute(f"select page from volume.strata.{table.name} order by page").fetchall()
    assert [row[0] for row in found] == [*range(len(found))]
    held = packed(None, index_sections(con, "volume", table))
    return held_index(Mapped(memoryview(held)), table)


def _pages(con: Connection, table: PageTable) -> list[list[list[object]]]:
    bodies = con.execute(f"select body from volume.strata.{table.name} order by page").fetchall()
    return [page_rows(body) for (body,) in bodies]


@given(rows=_ROWS, wanted=st.tuples(_NAMES, st.integers(-4, 4)), other=st.integers(-4, 4))
@settings(max_examples=80, deadline=None)
def test_all_rows_between_two_keys_are_in_the_pages_that_are_named(
    memory: Connection, rows: list[tuple[str, int]], wanted: tuple[str, int], other: int
) -> None:
    _made(memory, _TABLE, rows)
    pages, index = _pages(memory, _TABLE), _index(memory, _TABLE)
    assert [len(page) for page in pages[:-1]] == [PAGE_ROWS] * (len(pages) - 1)
    name, time = wanted
    for low, high in (
        ((), ()),
        ((name,), (name,)),
        ((name, min(time, other)), (name, max(time, other))),
        ((name, time), ()),
        ((), (name, time)),
    ):
        named = index.pages(low, high)
        found = {row[0] for page in named for row in pages[page]}
        assert found >= {
            row[0]
            for page in pages
            for row in page
            if (tuple(row[1:3])[: len(low)] >= low and tuple(row[1:3])[: len(high)] <= high)
            or (tuple(row[1:3])[: len(low)] >= low and not high)
        }  # fmt: skip


@given(rows=_ROWS, wanted=_NAMES)
@settings(max_examples=50, deadline=None)
def test_prefixes_find_whole_texts(
    memory: Connection, rows: list[tuple[str, int]], wanted: str
) -> None:
    _made(memory, _BY_ID, rows)
    pages, index = _pages(memory, _BY_ID), _index(memory, _BY_ID)
    key = (prefix(wanted),)
    found = [row for page in index.pages(key, key) for row in pages[page] if row[1] == wanted]
    assert len(found) == sum(name == wanted for name, _ in rows)


@given(st.text(), st.text())
def test_prefixes_are_in_the_order_of_the_texts(one: str, other: str) -> None:
    first, second = sorted((one, other))
    assert prefix(first) <= prefix(second)


def test_of_many_rows_one_page_or_two_hold_a_key(con: Connection) -> None:
    _made(con, _BY_ID, [(f"{number:08x}{'0' * 56}", 0) for number in range(10_000)])
    index = _index(con, _BY_ID)
    for number in (0, 63, 64, 5000, 9999):
        key = (prefix(f"{number:08x}{'0' * 56}"),)
        assert len(index.pages(key, key)) <= 2


def test_rows_are_what_they_were(con: Connection) -> None:
    text = 'a"\\<é☃\0\n\x7f\U0001f600'
    _made(con, _TABLE, [(text, -(2**63)), (text, 2**63 - 1)])
    assert _pages(con, _TABLE) == [
        [
            [0, text, -(2**63), True, None, '"<' + text],
            [1, text, 2**63 - 1, True, None, '"<' + text],
        ]
    ]


def test_rows_in_another_order_are_refused(con: Connection) -> None:
    source = _source(con, [(f"{number % 7}", 0) for number in range(200)])
    with pytest.raises(IntegrityError, match="the rows of made are not in the order of their key"):
        write_pages(con, "volume", _TABLE, source.partition(" order by ")[0])


@pytest.mark.parametrize(
    "change",
    [
        "update volume.strata.made set page = -1 where page = 0",
        "update volume.strata.made set name = 'z' where page = 1",
        "update volume.strata.made set time = 7 where page = 1",
        "update volume.strata.made set body = (select body from volume.strata.made where page = 0)",
        "delete from volume.strata.made where page = 2",
        "insert into volume.strata.made select page + 9, name, time, body from volume.strata.made",
        "update rows set time = time + 1 where number = 7",
        "delete from rows where number = 199",
    ],
)
def test_pages_that_do_not_follow_from_their_rows_are_found_out(
    con: Connection, change: str
) -> None:
    source = _made(con, _TABLE, [(f"{number:03}", number) for number in range(200)])
    assert prove_pages(con, "volume", _TABLE, source)
    con.execute(change)
    assert not prove_pages(con, "volume", _TABLE, source)


@pytest.mark.parametrize("body", [b"", b"no deflate", b"\x03\x00"])
def test_what_is_no_page_is_an_error(body: bytes) -> None:
    with pytest.raises(IntegrityError, match="a page of rows"):
        page_rows(body)
    assert inflate(b"\x03\x00") == b""


def test_an_index_is_held_in_a_mapped_file() -> None:
    with duckdb.connect() as con:
        con.execute("attach ':memory:' as volume")
        con.execute("create schema volume.strata")
        rows = _source(con, [(f"{number // 100}", number) for number in range(200)])
        write_pages(con, "volume", _TABLE, rows)
        write_pages(con, "volume", _BY_ID, rows)
        index, by_id = (_index(con, table) for table in (_TABLE, _BY_ID))
    assert [index[page] for page in range(len(index))] == [
        ("0", 0),
        ("0", 64),
        ("1", 128),
        ("1", 192),
    ]
    assert index.pages(("1",), ("1", 150)) == range(1, 3)
    assert [*by_id.columns[0]] == [prefix(name) for name in "0011"]
