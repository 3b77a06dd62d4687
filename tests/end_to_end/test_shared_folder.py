"""A warehouse in one folder that machines mount at several paths, and what happens to it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.command_kit import run_strata
from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import history_segment
from transforms.warehouse.warehouse_address import open_warehouse

_STRATA = shlex.quote(str(Path(sys.executable).with_name("strata")))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source and a warehouse that it was loaded into, below one folder."""
    root = tmp_path_factory.mktemp("model")
    (root / "source").mkdir()
    orders = table_rows("orders", {}, {})
    history_segment(root / "source", last=10, tables={"orders": orders})
    strata(root / "warehouse", "load", "--source", str(root / "source"))
    return root


@pytest.fixture
def warehouse(model: Path, tmp_path: Path) -> Path:
    """A copy whose file of views is its own."""
    copy = Path(shutil.copytree(model / "warehouse", tmp_path / "warehouse"))
    open_warehouse(copy).show()
    return copy


def strata(warehouse: Path, *arguments: str) -> str:
    done = run_strata(*arguments, "--warehouse", str(warehouse), folder=warehouse.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def count(warehouse: Path) -> int:
    """The number of orders, as a command finds it."""
    found = json.loads(strata(warehouse, "sql", "select count(*) from orders", "--json"))
    return int(found["rows"][0][0])


def count_in(views: Path) -> int:
    """The number of orders in a file of views, as DuckDB finds it without us."""
    with duckdb.connect(str(views), read_only=True) as con:
        found = con.execute("select count(*) from orders").fetchone()
    assert found is not None
    return int(found[0])


def open_with(warehouse: Path) -> Path:
    status = ("status", "--source", str(warehouse.parent), "--json")
    return Path(json.loads(strata(warehouse, *status))["open_with"])


def mounted(folder: Path, at: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the shell where `folder` is also mounted at `at`."""
    at.mkdir()
    mount = f"mount --bind {shlex.quote(str(folder))} {shlex.quote(str(at))} && {script}"
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", mount],
        cwd=at.parent,
        env={
            **os.environ,
            "STRATA_WAREHOUSE": str(at),
            "STRATA_SOURCE": str(at.parent),
            "STRATA_CACHE": str(at.parent / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def may_mount(tmp_path: Path) -> bool:
    (tmp_path / "one").mkdir()
    try:
        return mounted(tmp_path / "one", tmp_path / "two", "true").returncode == 0
    except FileNotFoundError:
        return False


def test_of_two_paths_of_one_folder_the_second_has_its_views_in_a_cache_of_its_own(
    warehouse: Path, tmp_path: Path
) -> None:
    if not may_mount(tmp_path):
        pytest.skip("this process may not mount a folder at a second path (unshare -m, mount)")
    first = warehouse / "current.duckdb"
    before = first.read_bytes(), first.stat().st_mtime_ns
    elsewhere = tmp_path / "elsewhere"

    queries = f"{_STRATA} sql --json 'select count(*) from orders'; {_STRATA} status --json"
    done = mounted(warehouse, elsewhere, queries)

    decoder, text, found = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].strip()
    assert [document.get("rows") for document in found] == [[[2]], None], done.stderr
    assert found[1]["open_with"] == str(tmp_path / "cache" / "current.duckdb")
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert count_in(first) == 2
    assert open_with(warehouse) == first


def test_a_folder_that_was_moved_takes_its_file_of_views_along(
    warehouse: Path, tmp_path: Path
) -> None:
    moved = warehouse.rename(tmp_path / "moved")

    assert count(moved) == 2
    assert open_with(moved) == moved / "current.duckdb"
    assert count_in(moved / "current.duckdb") == 2


@pytest.mark.parametrize(
    ("harm", "command"),
    [
        ("deleted", "load"),
        ("damaged", "compact"),
        ("a link copied as a file", "sql"),
    ],
)
def test_each_command_makes_a_lost_file_of_views_again(
    warehouse: Path, model: Path, harm: str, command: str
) -> None:
    views = warehouse / "current.duckdb"
    size = views.stat().st_size
    views.unlink()
    if harm == "damaged":
        views.write_bytes(bytes(size))
    elif harm == "a link copied as a file":  # as `cp -rL` makes of what an older release has there
        with duckdb.connect(str(views)) as con:
            con.execute("create schema strata")
            con.execute("create table strata.snapshot as select 3 as snapshot, 'kit' as chain")

    more = {"load": ["--source", str(model / "source")], "sql": ["select 1"], "compact": []}
    strata(warehouse, command, *more[command])

    assert count_in(views) == 2


def test_status_says_where_the_views_are(warehouse: Path, tmp_path: Path) -> None:
    views = warehouse / "current.duckdb"
    status = ("status", "--source", str(tmp_path))
    assert f"open with duckdb -readonly {views}, " in strata(warehouse, *status).splitlines()[-1]
