"""What a lake no longer needs goes with the work that is done anyway, by the store's own clock."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from pipelines.assembly import definitions
from pipelines.site.site import Site
from tests.lake_readers import age
from tests.pipelines.kit import blocks, load, make_segment, site_settings
from tests.pipelines.place_kit import Place, placed
from tests.segments_kit import table_rows

DAY = 24 * 3600.0
PUBLICATIONS = 3
ORPHAN = "1-10.0123456789abcdef.parquet"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three publications, each of one segment with newer current state."""
    folder = tmp_path_factory.mktemp("model")
    settings = replace(site_settings(folder), lake=True)
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for number in range(PUBLICATIONS):
            first = blocks(number)[0].first
            tables = {name: table_rows(name, {}, first=first) for name in ("orders", "accounts")}
            make_segment(settings, number, tables=tables)
            load(Site(settings))
            assert place.run("publish")[0] == 0
    return folder


@pytest.fixture
def place(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the model."""
    folder = tmp_path / "copy"
    shutil.copytree(model, folder)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return placed(replace(site_settings(folder), lake=True), monkeypatch)


def unnamed(lake: Path) -> set[Path]:
    """The files of rows that no newest version names, as a reader that is not ours sees them."""
    return {
        path
        for log in lake.glob("*/_delta_log")
        for path in log.parent.glob("*.parquet")
        if path not in {Path(uri) for uri in DeltaTable(log.parent).file_uris()}
    }


def command(*words: str) -> Callable[[Place], object]:
    def run(place: Place) -> None:
        assert place.run(*words)[0] == 0

    return run


def daily(place: Place) -> None:
    with dg.instance_for_test() as instance:
        job = definitions(place.settings).resolve_job_def("complete")
        assert job.execute_in_process(instance=instance, resources={"site": place.site}).success


SWEEPS: dict[str, Callable[[Place], object]] = {
    "run": command("run"),
    "publish": command("publish"),
    "the daily job": daily,
}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_what_no_version_of_the_last_week_names_goes_with_the_work(
    place: Place, sweep: str
) -> None:
    left = unnamed(place.lake)
    assert len(left) >= PUBLICATIONS - 1
    age(place.lake, 6)
    SWEEPS[sweep](place)
    assert unnamed(place.lake) == left

    age(place.lake, 8)
    SWEEPS[sweep](place)

    assert unnamed(place.lake) == set()
    assert place.verify()[1]["findings"] == []


def test_nothing_of_it_fails_verify_however_long_nobody_swept(place: Place) -> None:
    assert place.verify()[1]["findings"] == []
    age(place.lake, 20)
    assert unnamed(place.lake)
    assert place.verify()[1]["findings"] == []


def test_a_clock_that_is_days_ahead_costs_nothing_of_what_is_under_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of files are right; only what the commands take for the time is not."""
    names = (place.lake / "orders" / ORPHAN, place.lake / "orders" / "_delta_log" / "tmp.json.tmp")
    staged = place.archive / ".strata-scratch" / "0123456789abcdef0123456789abcdef"
    under_way = {*names, staged, *unnamed(place.lake)}
    for path in {*names, staged}:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    make_segment(place.settings, PUBLICATIONS)

    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 30 * DAY)
    place.run("load")
    assert place.run("publish")[0] == 0
    assert place.verify()[1]["findings"] == []
    monkeypatch.undo()

    assert {path for path in under_way if not path.exists()} == set()
