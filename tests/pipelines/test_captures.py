"""Spam captures from the command line and by Dagster, and what an analyst sees of them."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from click.testing import CliRunner, Result

from pipelines.assembly import definitions
from pipelines.assets.capture_assets import captures_sensor
from pipelines.assets.keys import CAPTURES
from pipelines.commands.group import strata
from pipelines.jobs import load_captures
from pipelines.resources import StrataResource
from pipelines.settings import Settings
from pipelines.site.site import Site
from tests.pipelines.kit import load, make_segment, site_settings
from tests.segments_kit import KIT_CHAIN
from transforms.errors import ConfigError
from transforms.warehouse import capture_file

ALICE, BOB = "ab" * 32, "cd" * 32


@pytest.fixture
def loaded(tmp_path: Path) -> Settings:
    """One segment, loaded; no captures yet."""
    settings = site_settings(tmp_path)
    make_segment(settings, 0)
    load(Site(settings))
    return settings


def write(settings: Settings, height: int, *lines: str) -> None:
    place = Path(settings.source) / "spam" / f"{KIT_CHAIN}-{height}.ndjson"
    place.parent.mkdir(exist_ok=True)
    place.write_text("".join(f"{line}\n" for line in lines))


def capture(party: str, epoch: int) -> str:
    statistics = {"epochSeq": str(epoch)}
    return json.dumps({"partyId": party, "chainId": KIT_CHAIN, "statistics": statistics})


def run(settings: Settings) -> tuple[int, dict[str, object]]:
    places = ["--source", settings.source, "--warehouse", str(settings.warehouse)]
    asked = ["captures", *places, "--json"]
    result: Result = CliRunner().invoke(strata, asked, standalone_mode=False)
    assert result.exception is None, result.output
    return result.return_value, json.loads(result.stdout)


def seen(settings: Settings) -> list[tuple[str, int, int]]:
    """What somebody finds who opens the DuckDB."""
    with duckdb.connect(f"{settings.warehouse}/current.duckdb", read_only=True) as con:
        query = "select party_id, epoch, height from main.spam_captures order by all"
        return con.execute(query).fetchall()


def test_the_command_loads_once_and_tells_what_it_refused(loaded: Settings) -> None:
    assert run(loaded) == (0, {"files": 0, "captures": 0, "refused": []})
    write(loaded, 7, capture(ALICE, 1), "no capture", capture(BOB, 1))

    code, result = run(loaded)

    assert (code, result["files"], result["captures"]) == (1, 1, 2)
    (refused,) = result["refused"]  # type: ignore[misc]
    assert (refused["file"], refused["line"]) == (f"spam/{KIT_CHAIN}-7.ndjson", 2)  # type: ignore[has-type]
    assert seen(loaded) == [(ALICE, 1, 7), (BOB, 1, 7)]
    assert run(loaded)[1]["files"] == 0


def test_the_status_tells_what_is_refused_until_the_file_is_replaced(loaded: Settings) -> None:
    def check() -> tuple[int, str]:
        places = ["--source", loaded.source, "--warehouse", str(loaded.warehouse)]
        asked = ["status", "--check", *places, "--archive", loaded.archive]
        result: Result = CliRunner().invoke(strata, asked, standalone_mode=False)
        return result.return_value, result.stdout

    sentence = "1 lines of spam captures are refused: strata captures lists them"
    assert sentence not in check()[1]
    write(loaded, 7, capture(ALICE, 1), "no capture")
    run(loaded)
    code, line = check()
    assert (code, line.rstrip().endswith(sentence)) == (1, True)
    write(loaded, 7, capture(ALICE, 1))
    run(loaded)
    assert sentence not in check()[1]
    for file in Path(loaded.warehouse, "spam").iterdir():
        file.unlink()
    code, line = check()
    assert (code, "run strata repair, then strata captures" in line) == (1, True)


def test_newer_captures_and_newer_segments_leave_the_view_true(loaded: Settings) -> None:
    write(loaded, 7, capture(ALICE, 1))
    run(loaded)
    with duckdb.connect(f"{loaded.warehouse}/current.duckdb", read_only=True) as reader:
        write(loaded, 9, capture(ALICE, 2))
        run(loaded)
        query = "select epoch from spam_captures"
        assert reader.execute(query).fetchall() == [(1,)]  # it keeps what it opened
    make_segment(loaded, 1)
    load(Site(loaded))
    assert seen(loaded) == [(ALICE, 2, 9)]
    with duckdb.connect(f"{loaded.warehouse}/current.duckdb", read_only=True) as con:
        assert con.execute("select count(*) from strata.refused_captures").fetchall() == [(0,)]


def test_without_a_segment_nobody_knows_the_chain(tmp_path: Path) -> None:
    settings = site_settings(tmp_path)
    write(settings, 7, capture(ALICE, 1))
    with pytest.raises(ConfigError, match="load them before spam captures"):
        capture_file.load_captures(Site(settings).warehouse, Site(settings).source)


def test_a_load_that_was_killed_before_it_showed_the_captures_is_made_good(
    loaded: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(loaded, 7, capture(ALICE, 1))
    with monkeypatch.context() as patch:
        patch.setattr("transforms.warehouse.warehouse.Warehouse.show", _killed)
        with pytest.raises(KeyboardInterrupt):
            capture_file.load_captures(Site(loaded).warehouse, Site(loaded).source)
    run(loaded)
    assert seen(loaded) == [(ALICE, 1, 7)]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_sensor_asks_for_a_run_when_there_is_something_and_the_run_loads_it(
    loaded: Settings, instance: dg.DagsterInstance
) -> None:
    def look(settings: Settings) -> dg.SensorResult:
        with dg.build_sensor_context(
            instance=instance, resources={"site": StrataResource.of(settings)}
        ) as context:
            result = captures_sensor(load_captures.name, settings)(context)
        assert isinstance(result, dg.SensorResult)
        return result

    assert not look(loaded).run_requests
    write(loaded, 7, capture(ALICE, 1), "{}")
    asked = look(loaded).run_requests
    assert asked is not None
    assert [request.run_key for request in asked] == [
        request.run_key for request in look(loaded).run_requests or []
    ]

    job = definitions(loaded).resolve_job_def("load_captures")
    assert job.execute_in_process(instance=instance).success

    event = instance.get_latest_materialization_event(CAPTURES)
    assert event is not None
    assert event.asset_materialization is not None
    facts = event.asset_materialization.metadata
    assert [facts[name].value for name in ("files", "captures", "refused_lines")] == [1, 1, 1]
    assert seen(loaded) == [(ALICE, 1, 7)]
    assert not look(loaded).run_requests


def test_before_the_first_segment_the_sensor_waits(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    settings = site_settings(tmp_path)
    write(settings, 7, capture(ALICE, 1))
    with dg.build_sensor_context(
        instance=instance, resources={"site": StrataResource.of(settings)}
    ) as context:
        result = captures_sensor(load_captures.name, settings)(context)
    assert isinstance(result, dg.SensorResult)
    assert not result.run_requests
