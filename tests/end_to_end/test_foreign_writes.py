"""What people and killed programs write to the warehouse's DuckDB files is never believed."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import duckdb
import pytest

import strata
from pipelines.cli import main
from tests.duckdb15_kit import HOME_15
from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import history_segment, state_segment

_WRITE = """
import os, signal, sys
import duckdb

con = duckdb.connect(sys.argv[1])
con.execute(sys.argv[2])
if len(sys.argv) > 3:
    os.kill(os.getpid(), signal.SIGKILL)
con.close()
"""
_CHANGES = {
    "a view over fewer rows": "create or replace view main.orders as "
    "select * from read_parquet(strata.files_1()) limit 0",
    "a macro": "create or replace macro main.utc(t) as null",
    "a comment": "comment on view main.orders is 'mine'",
    "another snapshot": "update strata.snapshot set snapshot = 9",
}
_ALL = (
    "select schema_name, view_name, sql, comment from duckdb_views() where not internal",
    "select schema_name, table_name, sql from duckdb_tables() where not internal",
    "select schema_name, function_name, macro_definition, comment from duckdb_functions() "
    "where not internal",
    "from strata.snapshot",
)
_RELEASES = pytest.mark.parametrize("is_15", [False, True], ids=["2.0", "1.5"])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of two orders, and its source."""
    root = tmp_path_factory.mktemp("template")
    (root / "source").mkdir()
    orders = table_rows("orders", {}, {})
    history_segment(root / "source", last=10, tables={"orders": orders})
    _run(root, "load")
    return root


@pytest.fixture(scope="module")
def published(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, published."""
    root = _copied(template, tmp_path_factory.mktemp("published"))
    _run(root, "publish")
    return root


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    """A copy with a file of views of its own."""
    return _copied(template, tmp_path)


def _copied(template: Path, folder: Path) -> Path:
    shutil.copytree(template, folder, dirs_exist_ok=True)
    (folder / "warehouse" / "current.duckdb").unlink()
    _run(folder, "sql", "select 1")
    return folder


def _run(place: Path, *arguments: str, code: int = 0) -> str:
    """Run a command on a place; what it printed."""
    places = {
        "STRATA_SOURCE": str(place / "source"),
        "STRATA_WAREHOUSE": str(place / "warehouse"),
        "STRATA_ARCHIVE": str(place / "archive"),
        "STRATA_LAKE": "0",
    }
    out, told = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(told):
        for name, value in places.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
    assert ended.value.code == code, f"{arguments}: {out.getvalue()} {told.getvalue()}"
    return out.getvalue() + told.getvalue()


def _write(path: Path, statement: str, *, is_15: bool = False, is_killed: bool = False) -> None:
    """Write to a file as a person with DuckDB does, whose program may be killed."""
    environment = {**os.environ, "PYTHONPATH": str(HOME_15)} if is_15 else {**os.environ}
    command = [sys.executable, "-c", _WRITE, str(path), statement, *(["killed"] * is_killed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if is_killed else 0), done.stderr
    log = path.with_name(f"{path.name}.wal")
    assert log.exists() == is_killed


def _count(place: Path, table: str = "orders") -> int:
    answer = json.loads(_run(place, "sql", f"select count(*) from {table}", "--json"))
    return int(answer["rows"][0][0])


def _shown(views: Path) -> list[Sequence[object]]:
    """Everything that a file of views has."""
    with duckdb.connect(str(views), read_only=True) as con:
        return [sorted(con.execute(query).fetchall(), key=str) for query in _ALL]


def _findings(place: Path, command: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(_run(place, command, "--json", code=5))["findings"]
    return found


def _views(place: Path) -> Path:
    return place / "warehouse" / "current.duckdb"


def test_the_file_of_views_is_read_only(place: Path) -> None:
    assert not stat.S_IMODE(_views(place).stat().st_mode) & 0o222


def test_a_changed_file_of_views_is_made_anew_by_who_asks(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One change after the other: each is made to a file that was made anew."""
    views = _views(place)
    before = _shown(views)
    for change, statement in _CHANGES.items():
        _write(views, statement)

        assert _count(place) == 2, change

        assert _shown(views) == before, change
        assert "a database of your own" in caplog.text, change
        caplog.clear()
        assert _count(place) == 2, change
        assert not caplog.text, change


@_RELEASES
def test_what_a_killed_program_wrote_to_the_file_of_views_goes(place: Path, is_15: bool) -> None:
    views = _views(place)
    before = _shown(views)
    _write(views, "create table own as select 1 as x", is_15=is_15, is_killed=True)

    assert _count(place) == 2

    assert _shown(views) == before
    assert not [*views.parent.glob("current.duckdb.*")]


def test_python_counts_what_is_there_whatever_a_person_wrote(place: Path) -> None:
    _write(_views(place), _CHANGES["a view over fewer rows"])
    with strata.open(place / "warehouse") as history:
        assert history.sql("select count(*) as n from orders").arrow().to_pylist() == [{"n": 2}]


@pytest.mark.parametrize(("is_15", "is_killed"), [(False, False), (True, True)])
def test_a_load_takes_nothing_over_from_a_changed_file(
    place: Path, is_15: bool, is_killed: bool
) -> None:
    views = _views(place)
    _write(views, _CHANGES["a view over fewer rows"], is_15=is_15, is_killed=is_killed)
    orders = table_rows("orders", {}, first=11)
    history_segment(place / "source", first=11, last=20, tables={"orders": orders})

    _run(place, "load")

    with duckdb.connect(str(views), read_only=True) as con:  # as an analyst, without strata
        assert con.execute("select count(*) from orders").fetchall() == [(3,)]
    assert _run(place, "repair").startswith("Nothing is wrong")


def test_a_log_beside_a_file_is_told_and_never_read(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    tables = {name: table_rows(name, {}, {}) for name in ("orders", "parties")}
    state_segment(tmp_path / "source", last=10, tables=tables)
    _run(tmp_path, "load")
    _run(tmp_path, "publish")
    (path,) = (tmp_path / "warehouse" / "state").glob("*.duckdb")
    rows = _count(tmp_path, "parties")
    assert rows
    _write(path, "delete from parties", is_15=True, is_killed=True)

    told = _run(tmp_path, "sql", "select count(*) from parties", code=5)
    assert f"{path.name}.wal" in told
    assert "strata repair" in told
    (finding,) = _findings(tmp_path, "verify")
    assert finding["where"] == f"{path}.wal"
    _follow(tmp_path, finding, code=5)

    assert _findings_after(tmp_path) == []
    assert _count(tmp_path, "parties") == rows


def test_own_views_belong_in_a_database_that_attaches_the_file(place: Path) -> None:
    attach = f"attach '{_views(place)}' as vega (read_only)"
    with duckdb.connect(str(place / "mine.duckdb")) as con:
        con.execute(attach)
        con.execute("create view many as select count(*) as n from vega.orders")
    orders = table_rows("orders", {}, first=11)
    history_segment(place / "source", first=11, last=20, tables={"orders": orders})
    _run(place, "load")
    with duckdb.connect(str(place / "mine.duckdb")) as con:
        con.execute(attach)
        assert con.execute("from many").fetchall() == [(3,)]


def test_spills_of_a_killed_program_go_after_a_day(place: Path) -> None:
    spills = place / "warehouse" / "current.duckdb.tmp"
    spills.mkdir()
    spill = spills / "duckdb_temp_storage_DEFAULT-0.tmp"
    spill.write_bytes(b"x")
    _run(place, "compact")
    assert spill.exists()
    for path in (spill, spills):
        os.utime(path, (0, 0))
    _run(place, "compact")
    assert not spills.exists()


def _follow(place: Path, finding: dict[str, object], code: int = 0) -> None:
    """Run the commands that a finding names."""
    commands = finding["commands"]
    assert isinstance(commands, list)
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "strata"
        _run(place, *arguments, code=code)


def _findings_after(place: Path) -> list[object]:
    repaired = json.loads(_run(place, "repair", "--json"))["findings"]
    verified = json.loads(_run(place, "verify", "--json"))["findings"]
    return [*repaired, *verified]
