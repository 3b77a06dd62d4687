"""A table of the lake that somebody else wrote to, or that is damaged, stops nobody but itself."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.instance import open_instance
from pipelines.site.site import Site
from tests.lake_readers import PyarrowLake
from tests.pipelines.kit import blocks, load, make_segment, site_settings
from tests.pipelines.place_kit import Place, placed
from tests.segments_kit import table_rows
from transforms.tables.registry import HISTORY_TABLES

STATE = "accounts"  # of the tables of current state the one that the segments have


def rows_of(number: int) -> dict[str, object]:
    return {name: table_rows(name, {}, first=blocks(number)[0].first) for name in ("orders", STATE)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments, the first two in the lake, each in a file of its own, and all loaded."""
    folder = tmp_path_factory.mktemp("model")
    settings = replace(site_settings(folder), lake=True, batch=1)
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for number in range(2):
            make_segment(settings, number, tables=rows_of(number))
        load(Site(settings))
        assert place.run("publish")[0] == 0
        make_segment(settings, 2, tables=rows_of(2))
        load(Site(settings))
    return folder


@pytest.fixture
def place(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the model."""
    folder = tmp_path / "copy"
    shutil.copytree(model, folder)
    settings = replace(site_settings(folder), lake=True, batch=1)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return placed(settings, monkeypatch)


def compact(table: Path) -> None:
    """What another program's housekeeping does; of one file it may make another one."""
    held = DeltaTable(table)
    if len(held.file_uris()) > 1:
        held.optimize.compact()
    else:
        write_deltalake(table, held.to_pyarrow_table(), mode="overwrite")


def cut_log(table: Path) -> None:
    path = max((table / "_delta_log").glob("*.json"))
    path.write_bytes(path.read_bytes()[:-9])


DAMAGES: dict[str, dict[str, Callable[[Path], object]]] = {
    "rows compacted, state cut short": {"orders": compact, STATE: cut_log},
    "rows cut short, state compacted": {"orders": cut_log, STATE: compact},
    "manifests compacted": {"manifests": compact},
    "manifests cut short": {"manifests": cut_log},
}
"""By their tables. Manifests alone, as they are the last, and of all tables."""


def rows(lake: Path, table: str) -> list[int]:
    """The segments that a table has rows of, by a reader that is not ours."""
    frame = pl.scan_delta(str(lake / table)).select("_segment").unique().collect()
    return sorted(frame["_segment"].to_list())


def follow(reason: str, lake: Path, table: str) -> list[str]:
    """Do what a refusal says by hand, and return the command that it names."""
    assert str(lake / table) in reason
    assert "_delta_log" in reason
    assert "remove it" in reason
    shutil.rmtree(lake / table / "_delta_log")
    found = re.search(r"strata (publish(?: --[a-z]+ [A-Za-z_]+)*)", reason)
    assert found, reason
    return shlex.split(found[1])


@pytest.mark.parametrize("damages", DAMAGES.values(), ids=DAMAGES)
def test_of_bad_tables_only_those_lack_the_segment_until_their_remedies_are_followed(
    place: Place, damages: dict[str, Callable[[Path], object]]
) -> None:
    for table, damage in damages.items():
        damage(place.lake / table)

    code, said = place.json("publish")

    refused = said["lake"]["refused"]
    assert (code, refused.keys()) == (4, damages.keys())
    for other in {"blocks", "orders"} - damages.keys():
        assert {path.name.partition(".")[0] for path in files(place.lake / other)} >= {"21-30"}
        assert list(place.chain.joinpath(other).glob("*-21-30.zip"))
    if STATE not in damages:
        assert rows(place.lake, STATE) == [21]

    code, text = place.run("publish")
    assert (code, "Nothing new" in text) == (4, False)
    for table, reason in refused.items():
        code, _ = place.run(*follow(reason, place.lake, table))

    assert code == 0
    assert rows(place.lake, "orders") == [1, 11, 21]
    assert rows(place.lake, STATE) == [21]
    assert all(0 not in row_counts(place.lake / table) for table in damages)
    read = PyarrowLake(place.lake)
    assert len(read.receipts()) == 3 * len(HISTORY_TABLES)
    assert place.verify()[1]["findings"] == []


def row_counts(table: Path) -> list[int]:
    """The rows of every version that a reader may see, but of the first, which made the table."""
    newest = DeltaTable(table).version()
    versions = (DeltaTable(table, version=number) for number in range(1, newest + 1))
    return [version.to_pyarrow_dataset().count_rows() for version in versions]


def files(table: Path) -> list[Path]:
    return [Path(uri) for uri in DeltaTable(table).file_uris()]


@pytest.mark.parametrize("table", ["orders", "manifests"])
def test_in_dagster_a_bad_table_fails_the_lake_and_the_others_get_their_rows(
    place: Place, table: str
) -> None:
    compact(place.lake / table)
    make_segment(place.settings, 3, tables=rows_of(3))

    problem = place.json("status")[1]["lake_problem"]  # which goes by the manifests
    assert (problem is None) == (table != "manifests")
    code, said = place.json("run")

    (new,) = blocks(3)
    assert code == 1
    (run,) = said["runs"]  # and none in halves
    assert [*said["lake"]["refused"]] == [table]
    with open_instance(Path(os.environ["DAGSTER_HOME"])) as instance:
        lake, exports = dg.AssetKey(["lake", "tables"]), dg.AssetKey(["archive", "orders"])
        assert new.key not in instance.get_materialized_partitions(lake)
        assert new.key in instance.get_materialized_partitions(exports)
    assert 31 in rows(place.lake, "blocks")
    assert place.run(*follow(run["failure"], place.lake, table))[0] == 0
    assert place.json("run")[0] == 0
