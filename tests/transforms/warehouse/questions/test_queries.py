"""Queries over the current catalog: exact in Arrow, CSV and Parquet, and wrong ones in words."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pg_csv import decode
from tests.segments_kit import entry_bytes
from tests.transforms.warehouse_kit import Held, query
from transforms.block_range import BlockRange
from transforms.errors import ConfigError, RangeError
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.queries import copy_query, query_rows
from transforms.warehouse.warehouse_address import open_warehouse

_GREAT = 2**100


def _read(held: Held, query: str) -> pa.Table:
    """A query's rows as the Parquet file that people get of them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        copy_query(held.warehouse, query, path, "parquet")
        return pq.read_table(path)


def _csv(held: Held, query: str, path: Path) -> bytes:
    copy_query(held.warehouse, query, path, "csv")
    return path.read_bytes()


def test_a_query_streams_its_rows(held: Held) -> None:
    table = _read(
        held, "select height, side_name from blocks, orders where height = 1 order by all"
    )
    assert table.column_names == ["height", "side_name"]
    assert table.num_rows == 7


@pytest.mark.parametrize(
    "end", ["", ";", " ;\n", "\n-- the end", " /* the end */", "; -- done", "\n;;"]
)
def test_a_query_may_end_as_in_a_file(held: Held, tmp_path: Path, end: str) -> None:
    query = f"select sum(size) as total, max(height) as newest from orders, blocks{end}"
    assert _read(held, query).to_pylist() == [{"total": Decimal(0), "newest": 30}]
    assert _csv(held, query, tmp_path / "out.csv") == b"total,newest\n0,30\n"
    copy_query(held.warehouse, query, tmp_path / "out.parquet", "parquet")
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 1


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
def test_great_integers_stay_exact_in_every_form(held: Held, tmp_path: Path, query: str) -> None:
    assert _read(held, query)["n"].to_pylist() == [Decimal(_GREAT)]
    copy_query(held.warehouse, query, tmp_path / "out.parquet", "parquet")
    parquet = pq.read_table(tmp_path / "out.parquet")
    assert parquet.schema.field("n").type == pa.decimal128(38, 0)
    assert parquet["n"].to_pylist() == [Decimal(_GREAT)]
    assert _csv(held, query, tmp_path / "out.csv") == f"n\n{_GREAT}\n".encode()


def test_great_integers_inside_a_list_stay_exact(held: Held, tmp_path: Path) -> None:
    query = f"select [{_GREAT}::hugeint, null] as n, {{'a': {_GREAT}::uhugeint}} as s"
    copy_query(held.warehouse, query, tmp_path / "out.parquet", "parquet")
    (row,) = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert row == {"n": [Decimal(_GREAT), None], "s": {"a": Decimal(_GREAT)}}


def test_the_sum_of_a_table_is_exact_in_parquet(held: Held, tmp_path: Path) -> None:
    query = "select sum(size) as sizes, sum(price) as prices from orders where price < 99"
    copy_query(held.warehouse, query, tmp_path / "out.parquet", "parquet")
    (row,) = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert row == {"sizes": Decimal(0), "prices": Decimal(25)}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("select 1 as a, 2 as a", b"a,a\n1,2\n"),
        ("select sum(size), sum(size + 1) from orders", b"sum(size),sum((size + 1))\n0,7\n"),
        (
            f"select {_GREAT}::hugeint as n, 'x' as n, {_GREAT + 1}::hugeint as n",
            f"n,n,n\n{_GREAT},x,{_GREAT + 1}\n".encode(),
        ),
        ('select 1 as "a""b", 2 as "a,b"', b'"a""b","a,b"\n1,2\n'),
    ],
)
def test_columns_of_one_name_keep_their_own_values(
    held: Held, tmp_path: Path, query: str, text: bytes
) -> None:
    written = _csv(held, query, tmp_path / "out.csv")
    assert decode(written)[1] == decode(text)[1]
    table = _read(held, query)
    assert [str(column[0].as_py()) for column in table.columns] == decode(text)[1][0]


def test_a_join_of_two_tables_may_be_copied_whole(held: Held, tmp_path: Path) -> None:
    query = (
        "select o._segment, b._segment from orders o join blocks b using (vega_time) "
        "order by o._segment, o._row"
    )
    rows = decode(_csv(held, query, tmp_path / "out.csv"))[1]
    assert [left for left, _ in rows] == [right for _, right in rows]
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("null", b""),
        ("''", b'""'),
        ("'a,b'", b'"a,b"'),
        ("e'a\\r\\nb'", b'"a\r\nb"'),
        ("'#1'", b"#1"),
        ("'NULL'", b"NULL"),
        ("1.50::decimal(9,2)", b"1.50"),
        ("true", b"true"),
        ("timestamptz '2023-05-01 10:00:00.5+00'", b"2023-05-01 10:00:00.5+00"),
        ("[1, 2]", b'"[1, 2]"'),
    ],
)
def test_values_are_written_by_the_rules_of_the_exports(
    held: Held, tmp_path: Path, value: str, text: bytes
) -> None:
    written = _csv(held, f"select {value} as v, 1 as one", tmp_path / "out.csv")
    assert written == b"v,one\n" + text + b",1\n"


def test_the_exact_view_is_copied_as_its_csv(held: Held, tmp_path: Path) -> None:
    query = "select * exclude (_segment, _row) from exact.orders where _segment = 21 order by _row"
    assert _csv(held, query, tmp_path / "out.csv") == entry_bytes(held.segments[2], "orders")


@pytest.mark.parametrize("query", ["from orders limit 0", "select 1 as a where false"])
def test_a_query_without_rows_has_its_columns(held: Held, tmp_path: Path, query: str) -> None:
    table = _read(held, query)
    assert table.num_rows == 0
    assert _csv(held, query, tmp_path / "out.csv").decode() == ",".join(table.column_names) + "\n"


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
def test_a_wrong_query_is_one_sentence_and_changes_nothing(
    held: Held, tmp_path: Path, query: str
) -> None:
    before = held.warehouse.current.read_bytes()
    for form in ("csv", "parquet"):
        with pytest.raises(ConfigError, match="the query cannot be run: ") as caught:
            copy_query(held.warehouse, query, tmp_path / f"out.{form}", form)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="the query cannot be run: "):
        _read(held, query)
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


def test_an_error_in_the_middle_of_a_file_is_reported_too(held: Held, tmp_path: Path) -> None:
    query = "select if(n = 2000000, error('too late'), n) as n from range(3000000) t(n)"
    for form in ("csv", "parquet"):
        with pytest.raises(ConfigError, match=r"the query cannot be run: .*too late"):
            copy_query(held.warehouse, query, tmp_path / f"out.{form}", form)


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
def test_whatever_reads_may_be_asked(held: Held, tmp_path: Path, query: str) -> None:
    table = _read(held, query)
    assert table.num_rows
    rows = decode(_csv(held, query, tmp_path / "out.csv"))[1]
    assert len(rows) == table.num_rows


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
    ],
    ids=str,
)
def test_only_the_volumes_of_the_blocks_in_question_are_read(
    held: Held, extent: Extent, seen: tuple[int, int]
) -> None:
    with held.warehouse.connect(extent) as con:
        assert con.execute("select count(*) from parties").fetchall() == [(3,)]
        assert con.execute("select min(height), max(height) from blocks").fetchall() == [seen]


def test_blocks_that_nothing_holds_are_an_error(held: Held) -> None:
    with (
        pytest.raises(RangeError, match="holds nothing of blocks 31-90"),
        held.warehouse.connect(Extent(BlockRange(31, 90))),
    ):
        pytest.fail("there is nothing to connect to")


def test_only_the_volumes_of_the_times_in_question_are_read(held: Held) -> None:
    one, two = (volume.times for volume in held.warehouse.loaded_catalog().history())
    rows = query(held.warehouse, "select epoch_us(vega_time) from blocks order by height")
    micros = [int(str(row[0])) for row in rows]
    assert (one, two) == ((micros[0], micros[19]), (micros[20], micros[29]))
    for height, seen in ((1, (1, 20)), (20, (1, 20)), (21, (21, 30)), (30, (21, 30))):
        at = micros[height - 1]
        with held.warehouse.connect(Extent(times=(at, at))) as con:
            assert con.execute("select min(height), max(height) from blocks").fetchall() == [seen]
