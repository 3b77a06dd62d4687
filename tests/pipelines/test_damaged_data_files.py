"""SQL over data files that are not what the log names: an error, and never other values."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import strata
from pipelines.settings import Settings
from strata.rows import Rows
from tests.damage_kit import rot
from tests.pipelines.command_kit import call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.segments_kit import table_rows
from transforms.errors import IntegrityError
from transforms.tables.registry import HISTORY_TABLES, known_tables

STATE = next(table for table in known_tables(1) if table not in HISTORY_TABLES)
TABLES = ("blocks", "orders", STATE)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two segments, which two loads brought: the files of none are merged."""
    settings = site_settings(tmp_path_factory.mktemp("model"))
    for number in (0, 1):
        cells = [{"reference": f"{number} {row}", "size": str(row)} for row in range(300)]
        tables = {"orders": table_rows("orders", *cells, first=number * 10 + 1)}
        make_segment(settings, number, tables={**tables, STATE: table_rows(STATE, *[{}] * 50)})
        assert call(places(settings), "load").returncode == 0
    return settings


@pytest.fixture
def site(model: Settings, tmp_path: Path) -> Settings:
    """A copy, as a backup puts it back: nobody has hashed its files."""
    shutil.copytree(model.warehouse, tmp_path / "warehouse")
    return replace(model, warehouse=str(tmp_path / "warehouse"))


def files_of(site: Settings, table: str) -> list[Path]:
    """The files that the newest snapshot names."""
    folder = Path(site.warehouse)
    states, data = folder.glob("state/*.duckdb"), folder.glob(f"data/{table}/*.parquet")
    return sorted(states)[-1:] if table == STATE else sorted(data)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.chmod(0o644)
    path.write_bytes(data)


READERS: dict[str, Callable[[Rows], object]] = {
    "arrow": lambda rows: rows.arrow(),
    "polars": lambda rows: rows.polars().collect(),
    "duckdb": lambda rows: rows.relation().fetchall(),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_flipped_bit_is_an_error_that_names_the_file(site: Settings, table: str) -> None:
    """Each time anywhere in another file, and then everything is right again."""
    chance = random.Random(table)
    query = ("sql", f"select * from {table}", "--json")
    right = call(places(site), *query).stdout
    for path in files_of(site, table) * 3:
        whole = path.read_bytes()
        flip(path, chance.randrange(len(whole)))
        done = call(places(site), *query)
        assert (done.returncode, str(path) in done.stderr, done.stdout) == (5, True, "")
        assert "strata repair" in done.stderr
        with strata.open(site.warehouse) as found:
            for rows in (found.table(table), found.sql(f"select count(*) from {table}")):
                for read in READERS.values():
                    with pytest.raises(IntegrityError, match=path.name):
                        read(rows)
            with pytest.raises(IntegrityError, match=path.name):
                _ = found.con
        path.write_bytes(whole)
        assert call(places(site), *query).stdout == right


def test_a_damaged_file_stops_only_the_queries_that_read_it(site: Settings) -> None:
    flip(files_of(site, "orders")[0], 100)
    assert call(places(site), "sql", "select count(*) from blocks").returncode == 0
    assert call(places(site), "sql", "select count(*) from strata.markets").returncode == 5
    with strata.open(site.warehouse) as found:
        assert found.table("blocks").arrow().num_rows == 20
        assert found.table("blocks").relation().shape[0] == 20


@pytest.mark.parametrize(
    "command",
    [
        ("copy", "FILE", "--tables", "orders"),
        ("export", "orders", "1", "20", "--out", "FILE", "--null", "-"),
        ("export", "blocks", "--from", "2023-01-01T00:00:01Z", "--out", "FILE"),
    ],
)
def test_other_commands_refuse_a_damaged_file(
    site: Settings, tmp_path: Path, command: tuple[str, ...]
) -> None:
    for path in files_of(site, "orders")[:1] + files_of(site, "blocks")[:1]:
        flip(path, 200)
    words = [str(tmp_path / "out") if word == "FILE" else word for word in command]
    done = call(places(site), *words)
    assert (done.returncode, "is damaged" in done.stderr) == (5, True), done.stderr
    assert not [*tmp_path.glob("out*/*.zip")]


@pytest.fixture
def loaded(tmp_path: Path) -> Settings:
    settings = site_settings(tmp_path)
    make_segment(settings, 0, tables={"orders": table_rows("orders", *[{}] * 99)})
    assert call(places(settings), "load").returncode == 0
    return settings


def test_what_a_load_has_proven_is_not_hashed_again(loaded: Settings) -> None:
    """Nothing but a complete check finds a bit that flips under the same size, time and inode."""
    (path,) = files_of(loaded, "blocks")
    rot(path, path.stat().st_size - 20)  # the footer has no values
    query = ("sql", "select count(*) from orders")
    rot(files_of(loaded, "orders")[0], 5)
    assert "no longer" not in (done := call(places(loaded), *query)).stderr
    assert "is damaged" not in done.stderr
    assert call(places(loaded), "verify").returncode == 5
    assert call(places(loaded), *query).returncode == 5


def test_a_file_is_hashed_once_in_each_state(site: Settings) -> None:
    query = ("sql", "select count(*) from orders")
    assert call(places(site), *query).returncode == 0
    path = files_of(site, "orders")[0]
    rot(path, 5)
    assert "is damaged" not in call(places(site), *query).stderr
    path.touch()
    assert call(places(site), *query).returncode == 5
