"""`import strata` and the notebook, on the sample, as people have it after `make run`."""

from __future__ import annotations

import csv
import doctest
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import strata
from strata import exports, history, rows
from strata.history import History
from strata.rows import Rows
from tests.command_kit import run_strata
from tests.segments_kit import block_time, build_segment, pg_csv, table_rows
from tests.transforms.warehouse_kit import load_folder
from transforms.duck import read_only_connection
from transforms.errors import ConfigError, IntegrityError, RangeError
from transforms.tables.registry import HISTORY_TABLES, known_tables

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("TZ", "America/New_York")  # nothing depends on where one is


@pytest.fixture
def opened() -> Iterator[History]:
    with strata.open() as found:
        yield found


def test_the_examples_in_the_docstrings_are_true() -> None:
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for module in (strata, history, rows, exports):
        for test in finder.find(module):
            runner.run(test)
    assert runner.summarize(verbose=False) == (0, runner.tries)
    assert runner.tries > 4


def test_importing_it_takes_none_of_the_heavy_packages() -> None:
    code = (
        "import strata, sys; print(*{'duckdb', 'polars', 'pyarrow', 'dagster'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("\n", 0)


def test_a_range_of_blocks_has_the_rows_of_these_blocks(opened: History) -> None:
    heights = opened.table("blocks", blocks=(500, 2600)).polars().select("height").collect()
    assert sorted(heights["height"]) == list(range(500, 2601))
    first, last = (
        opened.sql(
            "select min(vega_time), max(vega_time) from blocks where height between 500 and 2600"
        )
        .arrow()
        .to_pylist()[0]
        .values()
    )
    times = opened.table("trades", blocks=(500, 2600)).arrow()["vega_time"].to_pylist()
    everything = opened.table("trades").arrow()["vega_time"].to_pylist()
    assert sorted(times) == sorted(one for one in everything if first <= one <= last)


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of blocks 1-6 in which oracle data became history, and its current copy went."""
    folder = tmp_path_factory.mktemp("upgraded")
    for first, version, blocks in ((1, 20, (1, 2)), (3, 36, (1, 2, 4)), (5, 42, (6,))):
        names = {"oracle_data", "oracle_data_current"} & {*known_tables(version)}
        cells = [{"vega_time": block_time(block)} for block in blocks]
        build_segment(
            folder / "source",
            version=version,
            first=first,
            last=first + 1,
            tables={name: table_rows(name, *cells, version=version) for name in names},
            omit={*known_tables(version)} - {*HISTORY_TABLES, *names},
        )
    assert load_folder(folder / "warehouse", folder / "source").failures == []
    return folder / "warehouse"


def test_ranges_side_by_side_have_all_rows_of_a_table_that_became_history(upgraded: Path) -> None:
    with strata.open(upgraded) as found:
        ranges = [(block, block) for block in range(1, 7)]
        counts = [found.table("oracle_data", blocks=blocks).arrow().num_rows for blocks in ranges]
        assert counts == [1, 1, 0, 1, 0, 1]
        assert found.table("oracle_data").arrow().num_rows == 4


def test_a_table_that_no_new_segment_has_is_no_history(upgraded: Path) -> None:
    with strata.open(upgraded) as found:
        assert found.table("oracle_data_current").arrow().num_rows == 2
        with pytest.raises(RangeError, match="oracle_data_current is not a history"):
            found.table("oracle_data_current", blocks=(1, 2))


def test_days_are_those_of_utc_and_belong_to_the_range(opened: History) -> None:
    everything = opened.table("trades").arrow().num_rows
    assert opened.table("trades", days=("2023-06-01", "2023-06-01")).arrow().num_rows == everything
    assert opened.table("trades", days=("2023-05-31", "2023-05-31")).arrow().num_rows == 0
    early = opened.table("trades", days=("2023-06-01T00:00:00Z", "2023-06-01T00:59:59Z"))
    assert 0 < early.arrow().num_rows < everything


def test_amounts_and_times_are_exact_in_every_library(opened: History) -> None:
    balances = opened.table("balances")
    right = {
        text
        for (text,) in opened.sql("select balance::varchar from balances").relation().fetchall()
    }
    arrow, frame = balances.arrow(), balances.polars().collect()
    assert arrow.schema.field("balance").type == pa.decimal128(38, 0)
    assert arrow.schema.field("vega_time").type == pa.timestamp("us", tz="UTC")
    assert {None if one is None else str(one) for one in arrow["balance"].to_pylist()} == right
    assert frame.schema["balance"] == pl.Decimal(38, 0)
    largest = max(one for one in arrow["balance"].to_pylist() if one is not None)
    for amount in (largest, largest + 1):
        count = opened.sql(f"select count(*) from balances where balance = {amount}").arrow()
        found = balances.polars().filter(pl.col("balance") == Decimal(amount)).select(pl.len())
        assert found.collect().item() == count[0][0].as_py()


_NO_PYTHON_TIME = ("infinity", "-infinity", "10000-01-01 00:00:00+00", "0001-12-31 23:00:00+00 BC")
_TIMES = (*_NO_PYTHON_TIME, "9999-12-31 23:59:59.998999+00", "0001-01-01 00:00:00+00")


@pytest.mark.parametrize("table", ["orders", "accounts", "balances"])
def test_a_time_that_python_does_not_have_is_null_beside_its_text(
    tmp_path: Path, table: str
) -> None:
    column = "expires_at" if table == "orders" else "vega_time"
    cells = [{column: time} for time in (*_TIMES, block_time(1))]
    build_segment(tmp_path / "source", last=3, tables={table: table_rows(table, *cells)})
    assert load_folder(tmp_path / "warehouse", tmp_path / "source").failures == []
    path = tmp_path / "c-orders-1-3.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("c-orders-1-1-3.csv", pg_csv(*table_rows("orders", *cells)))
    copied = run_strata("copy", str(tmp_path / "copy"), "--warehouse", str(tmp_path / "warehouse"))
    assert copied.returncode == 0, copied.stderr
    with (
        strata.open(tmp_path / "warehouse") as found,
        strata.read_export(path) as export,
        read_only_connection(tmp_path / "copy") as copy,
    ):
        all_rows = [found.table(table), found.sql(f"select * from {table}")]
        _assert_times([*all_rows, *([export] if table == "orders" else [])], column)
        utc = f"select {column}, {column}_date, utc({column}) from {table} order by _row"
        plain = [row[column] for row in all_rows[0].arrow().sort_by("_row").to_pylist()]
        for con in (found.con, copy):
            assert [row[0] for row in con.sql(utc).fetchall()] == plain
            texts = con.sql(f"select {column} from exact.{table} order by _row").fetchall()
            assert [text for (text,) in texts] == [*_TIMES, block_time(1)]
            unfit = con.sql("select * from strata.unfit").fetchall()
            assert unfit == [(table, column, len(_NO_PYTHON_TIME))]


def _assert_times(all_rows: Sequence[Rows], column: str) -> None:
    """Each library has the times that Python has, and the texts of the others."""
    for rows_ in all_rows:
        arrow, frame = rows_.arrow(), rows_.polars().collect()
        micros = arrow[column].cast(pa.int64()).to_pylist()
        for values in (
            arrow[column].to_pylist(),
            frame[column].to_list(),
            [value for (value,) in rows_.relation().project(column).fetchall()],
        ):
            years = [value and value.astimezone(UTC).year for value in values]
            assert years == [*[None] * len(_NO_PYTHON_TIME), 9999, 1, 2023]
        assert [value is None for value in micros] == [year is None for year in years]
        texts = [dict(raw or ()).get(column) for raw in arrow["_raw"].to_pylist()]
        assert tuple(texts[: len(_NO_PYTHON_TIME)]) == _NO_PYTHON_TIME
        late = pl.col(column) > datetime(2000, 1, 1, tzinfo=UTC)
        assert rows_.polars().filter(late).select(pl.len()).collect().item() == 2


def test_polars_joins_two_tables_of_one_history(opened: History) -> None:
    trades, markets = opened.table("trades").polars(), opened.sql("from strata.markets").polars()
    joined = trades.join(markets, left_on="market_id", right_on="id").select(pl.len()).collect()
    assert joined.item() == opened.table("trades").arrow().num_rows


@pytest.mark.parametrize(
    ("ask", "error", "what"),
    [
        ({"name": "nothing"}, ConfigError, "there is no table 'nothing': take one of"),
        ({"name": "orders", "blocks": (5, 1)}, RangeError, r"blocks=\(5, 1\) is no range"),
        ({"name": "orders", "blocks": (9000, 9001)}, RangeError, "holds no block of 9000 to 9001"),
        ({"name": "orders", "days": ("2023", "x")}, RangeError, "is neither a block nor a time"),
        ({"name": "orders", "days": ("1", "2")}, RangeError, "give two days or times in UTC"),
        ({"name": "parties", "blocks": (1, 2)}, RangeError, "parties is not a history"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(
    opened: History, ask: dict[str, Any], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        opened.table(**ask)


def test_a_warehouse_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds nothing yet"):
        strata.open(tmp_path)


def published_rows(path: Path) -> list[dict[str, str | None]]:
    """The rows of all CSVs by Python's own readers; an unquoted nothing is NULL."""
    found: list[dict[str, str | None]] = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            text = archive.read(name).decode().replace('""', "\0")
            names, *lines = csv.reader(io.StringIO(text))
            found += [dict(zip(names, (c or None for c in line), strict=True)) for line in lines]
    return found


def test_an_export_of_several_schemas_is_one_table_with_exact_values() -> None:
    path = strata.fetch("strata-data/archive", "orders", out="got")
    right = published_rows(path)
    with strata.read_export(path) as export:
        assert len(zipfile.ZipFile(path).namelist()) == 2
        assert {*export.columns} == {*right[0], *right[-1], "_raw"}
        found = export.arrow().to_pylist()
    assert len(found) == len(right)
    for row, texts in zip(found, right, strict=True):
        assert row["id"] == (texts["id"] or "").removeprefix("\\x")
        assert str(row["price"]) == texts["price"]
        for name in row.keys() - texts.keys() - {"_raw"}:
            assert row[name] is None
    assert any(row["reference"] == "" for row in found) == any(
        r["reference"] == "\0" for r in right
    )


def test_an_export_keeps_cells_that_fit_no_type() -> None:
    path = strata.fetch("strata-data/archive", "deposits", out="got")
    with strata.read_export(str(path)) as export:
        raws = [(row["amount"], row["_raw"]) for row in export.arrow().to_pylist()]
    texts = [row["amount"] for row in published_rows(path)]
    held = [dict(raw or ()).get("amount", str(amount)) for amount, raw in raws]
    assert held == texts
    assert any(amount is None for amount, _ in raws)


def test_a_row_of_an_export_may_have_many_lines_and_megabytes(tmp_path: Path) -> None:
    path, text = tmp_path / "c-orders-1-1.zip", "one line,\r\n" * 300_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        rows = table_rows("orders", {}, {"reference": text}, {})
        made.writestr("c-orders-1-1-1.csv", pg_csv(*rows))
    with strata.read_export(path) as export:
        assert [row["reference"] for row in export.arrow().to_pylist()] == ["", text, ""]


def test_what_is_no_export_is_said(tmp_path: Path) -> None:
    before = {*Path(tempfile.gettempdir()).glob("strata-export-*")}
    (tmp_path / "no.zip").write_bytes(b"PK no")
    with pytest.raises(IntegrityError, match=r"no\.zip is no ZIP, or damaged"):
        strata.read_export(tmp_path / "no.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("other.csv", "a,b\n")
    with pytest.raises(ConfigError, match=r"other\.zip is no published ZIP"):
        strata.read_export(tmp_path / "other.zip")
    with pytest.raises(FileNotFoundError):
        strata.read_export(tmp_path / "nothing.zip")
    assert {*Path(tempfile.gettempdir()).glob("strata-export-*")} <= before
