"""`strata copy`: one DuckDB file with the tables of the warehouse, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines.sample_history import copy_sample
from tests.benchmarks.measure import measured
from tests.cases import each_of
from tests.command_kit import run_strata
from tests.exporters.lake.lake_kit import odd_start
from tests.segments_kit import build_segment, pg_csv, table_rows
from tests.transforms.warehouse_kit import cells_without_value, history_segment, load_folder
from tests.web_kit import web_server
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES, known_tables
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.questions.warehouse_copy import UNFINISHED, write_copy
from transforms.warehouse.warehouse_address import open_warehouse

_STRATA = Path(sys.executable).with_name("strata")
_SECONDS = 60
_NOT_COPIED = {"strata.snapshot"}
_MOST_BYTES = 400 * 2**20
_ROWS, _CELL_BYTES = 40_000, 4_000

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two segments of the sample history, loaded into a warehouse in two volumes."""
    root = tmp_path_factory.mktemp("copied")
    (root / "later").mkdir()
    for path in copy_sample(root / "source"):
        if not path.stem.endswith(("-2001-2450", "-2451-3450")):
            path.unlink()
    (segment,) = (root / "source").glob("*-2451-3450.zip")
    segment.rename(root / "later" / segment.name)
    assert load_folder(root / "warehouse", root / "source").failures == []
    assert load_folder(root / "warehouse", root / "later").failures == []
    assert len(_catalog(root).snapshot.history) == 2
    return root


@pytest.fixture(scope="module")
def whole(root: Path) -> Path:
    """A copy of all of it."""
    _copied(root, root / "whole.duckdb")
    return root / "whole.duckdb"


def _catalog(root: Path) -> Catalog:
    return open_warehouse(root / "warehouse").loaded_catalog()


def _run(root: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STRATA_WAREHOUSE": str(root / "warehouse")}
    return run_strata("copy", *map(str, arguments), environment=environment)


def _copied(root: Path, *arguments: object) -> dict[str, Any]:
    done = _run(root, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def _beside(root: Path, copy: Path) -> duckdb.DuckDBPyConnection:
    """The copy as `copy` and the file of views as `current`."""
    con = duckdb.connect()
    con.execute(f"attach '{copy}' as copy (read_only)")
    con.execute(f"attach '{root / 'warehouse' / 'current.duckdb'}' as current (read_only)")
    con.execute("use current")
    return con


def _relations(con: duckdb.DuckDBPyConnection, database: str) -> dict[str, str | None]:
    """Tables and views of a database, with their comments."""
    parts = (
        f"select schema_name || '.' || {kind}_name, comment from duckdb_{kind}s() "
        f"where database_name = '{database}' and not internal"
        for kind in ("table", "view")
    )
    return dict(con.execute(" union all ".join(parts)).fetchall())


def _same(con: duckdb.DuckDBPyConnection, name: str, where: str = "true") -> bool:
    """Whether a relation has the same rows in the copy as in the warehouse, there `where`."""
    columns = con.execute(f"select column_name from (describe copy.{name})").fetchall()
    listed = ", ".join(f'"{column}"::varchar' for (column,) in columns)  # perhaps not later ones
    counted = f"select count(*), sum(hash(r)) from (select to_json([{listed}]) from {{}}) as r"
    theirs = con.execute(counted.format(f"current.{name} where {where}")).fetchall()
    return con.execute(counted.format(f"copy.{name}")).fetchall() == theirs


def test_a_copy_has_all_names_comments_rows_and_texts_of_the_warehouse(
    root: Path, whole: Path
) -> None:
    with _beside(root, whole) as con:
        theirs, ours = _relations(con, "current"), _relations(con, "copy")
        assert ours.pop("strata.copy")
        assert ours == {name: theirs[name] for name in theirs.keys() - _NOT_COPIED}
        assert [name for name in ours if not _same(con, name)] == []
        columns = (
            "select schema_name, table_name, column_name, data_type, comment from duckdb_columns() "
            "where database_name = '{}' and table_name not in ('copy', 'snapshot') "
            "order by all"
        )
        ours_, theirs_ = (con.execute(columns.format(of)).fetchall() for of in ("copy", "current"))
        assert ours_ == theirs_


def test_the_tables_of_main_are_tables(root: Path, whole: Path) -> None:
    with _beside(root, whole) as con:
        query = (
            "select {0}_name from duckdb_{0}s() "
            "where (database_name, schema_name) = ('{1}', 'main')"
        )
        tables = con.execute(query.format("table", "copy")).fetchall()
        views = con.execute(f"{query.format('view', 'current')} and not internal").fetchall()
        assert sorted(tables) == sorted(views)


def test_a_copy_has_the_macros_of_the_warehouse_with_their_comments(
    root: Path, whole: Path
) -> None:
    query = (
        "select schema_name, function_name, parameters, macro_definition, comment "
        "from duckdb_functions() where database_name = '{}' and not internal "
        "and function_name not like 'files\\_%' escape '\\' order by all"
    )
    with _beside(root, whole) as con:
        ours, theirs = (con.execute(query.format(of)).fetchall() for of in ("copy", "current"))
    assert ours == theirs
    assert {name for _, name, *_ in ours} == {"utc", "moment", "amount", "block_at", "time_of"}


def test_a_copy_answers_alone_and_names_no_file(root: Path, whole: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    alone = shutil.copy(whole, tmp_path / "elsewhere")
    with _beside(root, whole) as con:
        expected = con.execute("select count(*), sum(price) from orders").fetchall()
    with duckdb.connect(alone, read_only=True) as con:
        assert con.execute("select count(*), sum(price) from orders").fetchall() == expected
        for kind in ("sql from duckdb_views()", "macro_definition from duckdb_functions()"):
            texts = con.execute(f"select {kind} where not internal").fetchall()
            assert not [text for (text,) in texts if str(root) in text or "read_" in text]
    assert str(root).encode() not in Path(alone).read_bytes()


@pytest.fixture(scope="module")
def some(root: Path) -> dict[str, Any]:
    """A copy of one of its segments, as the command tells it."""
    return _copied(root, root / "some.duckdb", "--blocks", "2001-2100")


def test_a_copy_of_some_blocks_has_the_rows_of_their_segments_and_the_current_state(
    root: Path, some: dict[str, Any]
) -> None:
    facts, place = some, root / "some.duckdb"
    assert facts["path"] == str(place)
    assert facts["bytes"] == place.stat().st_size
    assert (facts["chosen"]["from_block"], facts["chosen"]["to_block"]) == (2001, 2450)
    with _beside(root, place) as con:
        assert con.execute("from copy.strata.copy").fetchall() == [
            ("sample-chain-001", _catalog(root).snapshot.number, 2001, 2450)
        ]
        history = {
            name for (name,) in con.execute("select table_name from strata.receipts").fetchall()
        }
        views = _relations(con, "current").keys()
        for name, rows in facts["tables"].items():
            where = "_segment between 2001 and 2450" if name in history else "true"
            for view in views & {f"main.{name}", f"exact.{name}"}:
                assert _same(con, view, where), view
            assert con.execute(f"select count(*) from copy.main.{name}").fetchall() == [(rows,)]
        for name in ("receipts", "segments"):
            assert _same(con, f"strata.{name}", "first_block between 2001 and 2450")
        unfit = con.execute("from copy.strata.unfit").fetchall()
        balances = (
            "select 'balances', 'balance', count(*) from balances "
            "where _raw['balance'] is not null and _segment between 2001 and 2450"
        )
        assert con.execute(balances).fetchall()[0] in unfit


@pytest.fixture(scope="module")
def archive(root: Path) -> Path:
    """An archive of it, with the lake."""
    places = {f"STRATA_{name}": str(root / name.lower()) for name in ("WAREHOUSE", "ARCHIVE")}
    done = run_strata("publish", environment={**os.environ, **places})
    assert done.returncode == 0, done.stderr
    return root / "archive"


def test_a_copy_of_an_archive_is_that_of_the_warehouse(
    root: Path, archive: Path, some: dict[str, Any], tmp_path: Path
) -> None:
    with web_server(archive) as address:
        place = tmp_path / "theirs.duckdb"
        facts = _copied(root, place, "--blocks", "2001-2100", "--archive", address)
    times = ("--times", "2023-06-01T00:37..2023-06-01T00:40")
    tables = ("--tables", "blocks", "--archive", archive)
    assert _copied(root, tmp_path / "times.duckdb", *times, *tables)["tables"] == {"blocks": 450}
    assert facts["tables"]["blocks"] == 450
    assert (facts["chosen"]["from_block"], facts["chosen"]["to_block"]) == (2001, 2450)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "theirs.duckdb",
        "times.duckdb",
    ]
    with duckdb.connect() as con:
        con.execute(f"attach '{some['path']}' as ours (read_only)")
        con.execute(f"attach '{place}' as theirs (read_only)")
        ours, theirs = _relations(con, "ours"), _relations(con, "theirs")
        for relations in (ours, theirs):  # no archive has current state but the newest
            relations.pop("exact.oracle_data_current", None)
            relations.pop("main.oracle_data_current", None)
        assert ours == theirs
        for name in ours.keys() - {"strata.copy", "strata.segments"}:
            columns = con.execute(f"select column_name from (describe theirs.{name})").fetchall()
            listed = ", ".join(f'"{column}"' for (column,) in columns)  # later ones are not known
            query = f"select {listed} from {{}}.{name} order by all"
            assert con.execute(query.format("ours")).fetchall() == (
                con.execute(query.format("theirs")).fetchall()
            ), name


def test_a_file_that_is_no_copy_is_refused_before_an_archive_is_asked_for_rows(
    root: Path, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.duckdb").write_text("mine")
    shutil.copytree(archive, tmp_path / "archive", ignore=shutil.ignore_patterns("lake"))
    done = _run(root, tmp_path / "mine.duckdb", "--archive", tmp_path / "archive")
    assert done.returncode == 2
    assert "is there and no copy of a warehouse" in done.stderr


def test_a_damaged_archive_gives_no_copy(root: Path, archive: Path, tmp_path: Path) -> None:
    archive = shutil.copytree(archive, tmp_path / "archive")
    (file, *_) = sorted(archive.glob("*/lake/orders/*.parquet"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(data)
    done = _run(root, tmp_path / "c.duckdb", "--archive", archive)
    assert done.returncode == 5
    assert file.name in done.stderr
    assert [*tmp_path.iterdir()] == [archive]


def test_what_does_not_fit_is_counted_in_a_copy_as_in_the_warehouse(tmp_path: Path) -> None:
    load_folder(tmp_path / "warehouse", odd_start(tmp_path / "source"))
    copy = tmp_path / "copy.duckdb"
    _copied(tmp_path, copy)
    with _beside(tmp_path, copy) as con:
        unfit = con.execute("from strata.unfit order by all").fetchall()
        assert unfit == cells_without_value(con)
        assert con.execute("from copy.strata.unfit order by all").fetchall() == unfit


def test_times_choose_the_segments_that_they_touch(root: Path, tmp_path: Path) -> None:
    times = "2023-06-01T00:37..2023-06-01T00:40"
    facts = _copied(root, tmp_path / "c.duckdb", "--times", times, "--tables", "blocks")
    assert (facts["chosen"]["from_block"], facts["chosen"]["to_block"]) == (2001, 2450)
    assert facts["tables"] == {"blocks": 450}


def test_a_copy_of_some_tables_has_these_and_the_names_that_they_suffice_for(
    root: Path, tmp_path: Path
) -> None:
    _copied(root, tmp_path / "c.duckdb", "--tables", "positions, assets")
    with _beside(root, tmp_path / "c.duckdb") as con:
        assert {*_relations(con, "copy")} == {
            *(
                f"{schema}.{name}"
                for schema in ("main", "exact")
                for name in ("assets", "positions")
            ),
            *(f"strata.{name}" for name in ("assets", "copy", "receipts", "segments", "unfit")),
        }
        assert _same(con, "strata.receipts", "table_name = 'positions'")
        assert _same(con, "exact.positions")
        assert _same(con, "strata.assets")


def test_a_table_that_became_history_keeps_its_state_before_in_every_range(tmp_path: Path) -> None:
    for first, version, count in ((1, 36, 2), (3, 42, 1), (5, 42, 1)):
        rows = table_rows("oracle_data", *[{}] * count, version=version, first=first)
        others = {*known_tables(version)} - {*HISTORY_TABLES, "oracle_data"}
        tables = {"oracle_data": rows}
        build_segment(
            tmp_path / "s", version=version, first=first, last=first + 1, tables=tables, omit=others
        )
    load_folder(tmp_path / "warehouse", tmp_path / "s")
    for blocks, expected in (
        ("5-6", [(1, 2), (5, 1)]),
        ("1-6", [(1, 2), (3, 1), (5, 1)]),
    ):
        _copied(tmp_path, tmp_path / "c.duckdb", "--blocks", blocks)
        with duckdb.connect(tmp_path / "c.duckdb", read_only=True) as con:
            counted = "select _segment, count(*) from oracle_data group by 1 order by 1"
            assert con.execute(counted).fetchall() == expected, blocks


@each_of(
    ("arguments", "code", "sentence"),
    [
        (["c", "--archive", "a", "--warehouse", "w"], 2, "from --warehouse or from --archive"),
        (["c", "--tables", "order"], 2, "there is no table 'order': take some of accounts, "),
        (["c", "--tables", " ,"], 2, "--tables names no table: give some, like orders,trades"),
        (["c", "--blocks", "5-x"], 2, "--blocks is '5-x': give two heights, like 1-5000"),
        (["c", "--blocks", "1-2", "--times", "2023-06-01..2023-06-01"], 2, "not both"),
        (["c", "--blocks", "8000-9000"], 3, "the warehouse holds blocks 2001-3450 (2 segments)"),
        (["c", "--blocks", "2001-3451"], 3, "of blocks 2001-3451 not all are loaded: {root}"),
        (["c", "--times", "2024-01-01..2024-01-02"], 3, "the warehouse holds blocks 2001-3450"),
        (["warehouse/current.duckdb"], 2, "is there and no copy of a warehouse: remove it, or"),
        (["source"], 2, "{root}/source is a folder: name a file in it"),
        (["warehouse/current.duckdb/c"], 2, "/warehouse/current.duckdb is no folder: name one"),
        (["/proc/c.duckdb"], 7, "strata: /proc: no file can be created in it (No such file or"),
        (["no?name.duckdb"], 2, "has a ? in its path and DuckDB opens no files there"),
    ],
)
def test_what_cannot_be_copied_is_a_sentence_and_leaves_nothing(
    root: Path, arguments: list[str], code: int, sentence: str
) -> None:
    before = sorted(root.iterdir())
    done = _run(root, root / arguments[0], *arguments[1:])
    assert done.returncode == code
    assert sentence.format(root=root) in done.stderr
    assert sorted(root.iterdir()) == before


def test_a_gap_is_named_and_a_copy_without_a_range_has_both_sides(
    tmp_path: Path,
) -> None:
    for first in (1, 5):
        history_segment(tmp_path / "s", first=first, last=first + 1)
    load_folder(tmp_path / "warehouse", tmp_path / "s")
    done = _run(tmp_path, tmp_path / "c.duckdb", "--blocks", "1-6")
    assert done.returncode == 3
    assert f"of blocks 1-6 not all are loaded: {tmp_path}/warehouse lacks 3-4" in done.stderr
    assert _copied(tmp_path, tmp_path / "c.duckdb")["tables"]["blocks"] == 4


def test_nothing_is_copied_of_blocks_of_which_a_volume_is_lost(tmp_path: Path) -> None:
    history_segment(tmp_path / "s", first=1, last=2)
    load_folder(tmp_path / "warehouse", tmp_path / "s")
    (data,) = (tmp_path / "warehouse" / "data" / "blocks").iterdir()
    data.unlink()
    done = _run(tmp_path, tmp_path / "c.duckdb")
    assert done.returncode == 5
    assert f"{data.name} is missing: run strata repair, then strata load" in done.stderr
    assert not (tmp_path / "c.duckdb").exists()


def _text(path: Path) -> None:
    path.write_text("mine")


def _own_database(path: Path) -> None:
    with duckdb.connect(path) as con:
        con.execute("create table mine as select 1 as x")


@pytest.mark.parametrize("write", [_text, _own_database, Path.touch])
def test_a_file_that_is_no_copy_is_not_replaced(
    root: Path, tmp_path: Path, write: Callable[[Path], None]
) -> None:
    place = tmp_path / "mine.duckdb"
    write(place)
    before = place.read_bytes()
    done = _run(root, place, "--tables", "blocks")
    assert done.returncode == 2
    assert f"{place} is there and no copy of a warehouse: remove it, or name another" in done.stderr
    assert place.read_bytes() == before
    assert [*tmp_path.iterdir()] == [place]


def test_an_earlier_copy_is_replaced_with_the_log_beside_it(root: Path, tmp_path: Path) -> None:
    place = tmp_path / "c.duckdb"
    _copied(root, place, "--tables", "orders")
    writes = (
        "import os, signal, sys, duckdb; con = duckdb.connect(sys.argv[1]); "
        "con.execute('delete from orders'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", writes, place], check=False)
    assert (tmp_path / "c.duckdb.wal").exists()
    _copied(root, place, "--tables", "trades")
    assert not (tmp_path / "c.duckdb.wal").exists()
    with duckdb.connect(place, read_only=True) as con:
        assert con.execute("show tables").fetchall() == [("trades",)]


def test_a_copy_that_a_program_writes_to_is_not_replaced(root: Path, tmp_path: Path) -> None:
    place = tmp_path / "c.duckdb"
    _copied(root, place, "--tables", "blocks")
    with duckdb.connect(place):
        done = _run(root, place, "--tables", "blocks")
    assert done.returncode == 6
    assert "another program has it open to write" in done.stderr


def test_two_copies_at_once_are_both_whole_and_leave_nothing_else(
    root: Path, whole: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "STRATA_WAREHOUSE": str(root / "warehouse")}
    copies = [tmp_path / "one.duckdb", tmp_path / "two.duckdb"]
    running = [
        subprocess.Popen(
            [str(_STRATA), "copy", str(one), "--tables", "orders,positions"], env=environment
        )
        for one in copies
    ]
    assert [process.wait(_SECONDS) for process in running] == [0, 0]
    assert sorted(tmp_path.iterdir()) == copies
    for one in copies:
        with _beside(root, one) as con:
            con.execute(f"attach '{whole}' as earlier (read_only)")
            for name in ("main.orders", "exact.positions"):
                rows = [con.execute(f"from {of}.{name}").fetchall() for of in ("copy", "earlier")]
                assert rows[0] == rows[1]


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.crash)]
)
def test_a_stopped_copy_leaves_the_earlier_one_and_the_next_sweeps(
    root: Path, tmp_path: Path, number: signal.Signals
) -> None:
    place = tmp_path / "c.duckdb"
    _copied(root, place, "--tables", "blocks")
    before = place.read_bytes()
    environment = {**os.environ, "STRATA_WAREHOUSE": str(root / "warehouse")}
    command = [str(_STRATA), "copy", str(place)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as copy:
        ends = time.monotonic() + _SECONDS
        while not [*tmp_path.glob(f"{UNFINISHED}*/copy.duckdb")]:
            assert copy.poll() is None, "it ended before it wrote"
            assert time.monotonic() < ends
            time.sleep(0.001)
        copy.send_signal(number)
        codes = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
        assert copy.wait(_SECONDS) == codes[number]
    assert place.read_bytes() == before
    assert any(tmp_path.glob(f"{UNFINISHED}*")) is (number == signal.SIGKILL)
    _copied(root, place, "--tables", "trades")
    assert [*tmp_path.iterdir()] == [place]


def test_a_full_disk_is_a_sentence_and_leaves_nothing(root: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "STRATA_WAREHOUSE": str(root / "warehouse")}
    line = f"ulimit -f 2500; exec {_STRATA} copy {tmp_path / 'c.duckdb'}"
    done = subprocess.run(
        ["sh", "-c", line], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 7, done.stderr
    assert "raise the limit of a file's size (ulimit -f), then run it again" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_progress_ends_with_all_tables(root: Path, tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    warehouse = open_warehouse(root / "warehouse")
    write_copy(
        warehouse,
        tmp_path / "c.duckdb",
        BlockRange(2001, 3450),
        ("blocks", "positions"),
        lambda tables, total: reports.append((tables, total)),
    )
    assert reports == [(1, 2), (2, 2)]


def _copy_all(warehouse: Path, place: Path) -> None:
    write_copy(open_warehouse(warehouse, memory_mb=100), place, BlockRange(1, 10), ())


@pytest.mark.crash
def test_a_large_table_is_copied_in_bounded_memory(tmp_path: Path) -> None:
    """160 MB of withdrawals with 100 MB for DuckDB; with 2,000 MB it takes 650 MiB."""
    cell = f'{{"a": "{"b" * _CELL_BYTES}"}}'
    text = pg_csv(*table_rows("withdrawals", {"id": "\\xff", "ext": cell}))
    header, _, row = text.partition(b"\n")
    rows = b"".join(row.replace(b"\\xff", b"\\x%08x" % at) for at in range(_ROWS))
    history_segment(tmp_path / "s", last=10, tables={"withdrawals": header + b"\n" + rows})
    assert load_folder(tmp_path / "warehouse", tmp_path / "s").failures == []
    cost = measured(_copy_all, tmp_path / "warehouse", tmp_path / "c.duckdb")
    with duckdb.connect(tmp_path / "c.duckdb", read_only=True) as con:
        assert con.execute("select count(*) from withdrawals").fetchall() == [(_ROWS,)]
    assert cost.peak < _MOST_BYTES, f"{cost.peak / 2**20:.0f} MiB"
