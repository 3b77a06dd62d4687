"""Queries over the current catalog: exact rows, and wrong ones in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transforms.warehouse_kit import Held, query
from transforms.block_range import BlockRange
from transforms.errors import ConfigError
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.queries import query_rows
from transforms.warehouse.warehouse_address import open_warehouse

_GREAT = 2**100


def _read(held: Held, query: str) -> tuple[list[str], list[tuple[object, ...]]]:
    with query_rows(held.warehouse, query) as (names, rows):
        return [*names], [*rows]


def test_a_query_gives_its_columns_and_rows(held: Held) -> None:
    query = "select height, side_name from blocks, orders where height = 1 order by all"
    names, rows = _read(held, query)
    assert names == ["height", "side_name"]
    assert len(rows) == 7
    assert _read(held, "select 1 as a where false") == (["a"], [])


@pytest.mark.parametrize(
    "end", ["", ";", " ;\n", "\n-- the end", " /* the end */", "; -- done", "\n;;"]
)
def test_a_query_may_end_as_in_a_file(held: Held, end: str) -> None:
    query = f"select sum(size) as total, max(height) as newest from orders, blocks{end}"
    assert _read(held, query) == (["total", "newest"], [(0, 30)])


@pytest.mark.parametrize(
    "query",
    [
        f"select {_GREAT}::hugeint as n",
        f"select {_GREAT}::uhugeint as n",
        f"select sum(n) as n from (select {_GREAT // 4}::hugeint as n from range(4))",
        f"select sum({_GREAT}::decimal(38,0)) as n",
        f"select n[1] as n from (select [{_GREAT}::hugeint] as n)",
    ],
)
def test_great_integers_stay_exact(held: Held, query: str) -> None:
    assert _read(held, query) == (["n"], [(_GREAT,)])


def test_columns_of_one_name_keep_their_own_values(held: Held) -> None:
    assert _read(held, "select 1 as a, 2 as a") == (["a", "a"], [(1, 2)])


_WRONG = [
    "select nothing from orders",
    "from no_such_table",
    "selec 1",
    "",
    ";",
    "select 1; select 2",
    "select 1 / 'x'",
    "select error('on purpose')",
    "select 'x'::int from orders",
    f"select {_GREAT}::hugeint * {_GREAT}::hugeint as n",
    f"select ({_GREAT}::hugeint * {2**27}) as n",
    "delete from blocks",
    "insert into strata.segments from strata.segments",
    "create table mine as select 1",
    "drop view orders",
    "explain analyze create table mine as select 1",
    "explain (analyze) insert into strata.segments from strata.segments",
    "explain (analyze, format json) copy (select 1) to 'written.csv'",
    "explain analyze /* select */ copy (select 1) to 'written.csv'",
    "pragma threads = 1",
    "pragma enable_profiling",
    "pragma import_database('.')",
]


@pytest.mark.parametrize("query", _WRONG, ids=repr)
def test_a_wrong_query_is_one_sentence_and_changes_nothing(held: Held, query: str) -> None:
    before = held.warehouse.current.read_bytes()
    with pytest.raises(ConfigError, match="the query cannot be run: ") as caught:
        _read(held, query)
    assert "\n" not in str(caught.value)
    assert not Path("written.csv").exists()
    assert held.warehouse.current.read_bytes() == before


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from no_such_table", "Table with name no_such_table does not exist"),
        ("", "it holds 0 statements, not one"),
        ("select 1; select 2", "it holds 2 statements, not one"),
        ("drop view orders", "the warehouse is only read"),
        ("copy blocks to 'x.csv'", "the warehouse is only read"),
        ("attach 'x.duckdb'", "the warehouse is only read"),
        ("set memory_limit = '1TB'", "the warehouse is only read"),
    ],
)
def test_a_wrong_query_is_answered_with_what_is_wrong(held: Held, query: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        _read(held, query)


def test_an_error_in_the_middle_of_a_stream_is_reported_too(held: Held) -> None:
    query = "select if(n = 2000000, error('too late'), n) as n from range(3000000) t(n)"
    with (
        pytest.raises(ConfigError, match=r"the query cannot be run: .*too late"),
        query_rows(held.warehouse, query) as (_, rows),
    ):
        assert sum(1 for _ in rows) < 2_000_000


def test_an_error_of_the_one_who_reads_passes_through(held: Held) -> None:
    with pytest.raises(BrokenPipeError), query_rows(held.warehouse, "select 1"):
        raise BrokenPipeError(32, "the reader went away")


@pytest.mark.parametrize(
    "query",
    [
        "show tables",
        "describe orders",
        "summarize blocks",
        "values (1, 2)",
        "with b as (from blocks) select * from b",
        "pivot orders on side_name using count(*) group by _segment",
        "values (1, 2); -- the end",
    ],
)
def test_whatever_reads_may_be_asked(held: Held, query: str) -> None:
    assert _read(held, query)[1]


def test_there_is_no_query_before_the_first_load(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="load segments first"),
        query_rows(open_warehouse(tmp_path), "select 1"),
    ):
        pytest.fail("there is nothing to query")


@pytest.mark.parametrize(
    ("extent", "seen"),
    [
        (Extent(), (1, 30)),
        (Extent(BlockRange(1, 5)), (1, 20)),
        (Extent(BlockRange(25, 90)), (21, 30)),
        (Extent(BlockRange(20, 21)), (1, 30)),
        (Extent(BlockRange(31, 90)), (1, 30)),  # none can: all
    ],
    ids=str,
)
def test_only_the_volumes_of_the_blocks_in_question_are_read(
    held: Held, extent: Extent, seen: tuple[int, int]
) -> None:
    with held.warehouse.connect(held.warehouse.loaded_catalog().over(extent)) as con:
        assert con.execute("select count(*) from parties").fetchall() == [(3,)]
        assert con.execute("select min(height), max(height) from blocks").fetchall() == [seen]


def test_only_the_volumes_of_the_times_in_question_are_read(held: Held) -> None:
    catalog = held.warehouse.loaded_catalog()
    one, two = (volume.times for volume in catalog.snapshot.history)
    rows = query(held.warehouse, "select epoch_us(vega_time) from blocks order by height")
    micros = [int(str(row[0])) for row in rows]
    assert (one, two) == ((micros[0], micros[19]), (micros[20], micros[29]))
    for height, seen in ((1, (1, 20)), (20, (1, 20)), (21, (21, 30)), (30, (21, 30))):
        at = micros[height - 1]
        with held.warehouse.connect(catalog.over(Extent(times=(at, at)))) as con:
            assert con.execute("select min(height), max(height) from blocks").fetchall() == [seen]
