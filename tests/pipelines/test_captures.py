"""Spam captures from the command line and by Dagster, and what an analyst sees of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
from click.testing import CliRunner, Result

from pipelines.assembly import definitions
from pipelines.batches import Batch
from pipelines.commands.group import strata
from pipelines.run_requests import batch_tags
from pipelines.settings import Settings
from pipelines.site.site import Site
from tests.pipelines.kit import blocks, load, make_segment, site_settings
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


def run(settings: Settings, *command: str) -> tuple[int, dict[str, Any]]:
    places = ["--source", settings.source, "--warehouse", str(settings.warehouse)]
    asked = [*(command or ["load"]), *places, "--json"]
    result: Result = CliRunner().invoke(strata, asked, standalone_mode=False)
    assert result.exception is None, result.output
    return result.return_value, json.loads(result.stdout)


def seen(settings: Settings) -> list[tuple[str, int, int]]:
    """What somebody finds who opens the DuckDB."""
    with duckdb.connect(f"{settings.warehouse}/current.duckdb", read_only=True) as con:
        query = "select party_id, epoch, height from main.spam_captures order by all"
        return con.execute(query).fetchall()


def test_the_command_loads_once_and_tells_what_it_refused(loaded: Settings) -> None:
    assert run(loaded)[0] == 0
    write(loaded, 7, capture(ALICE, 1), "no capture", capture(BOB, 1))

    code, result = run(loaded)

    assert code == 1
    (refused,) = result["refused_captures"]
    assert (refused["file"], refused["line"]) == (f"spam/{KIT_CHAIN}-7.ndjson", 2)
    assert seen(loaded) == [(ALICE, 1, 7), (BOB, 1, 7)]
    assert run(loaded)[0] == 1, "as long as there is such a line"


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


def test_a_run_of_dagster_loads_them_with_the_current_state(
    loaded: Settings, instance: dg.DagsterInstance
) -> None:
    write(loaded, 7, capture(ALICE, 1), "{}")

    job = definitions(loaded).resolve_job_def("load")
    instance.add_dynamic_partitions("segments", [segment.key for segment in blocks(0)])
    tags = batch_tags(Batch(blocks(0)))
    assert job.execute_in_process(instance=instance, tags=tags).success

    assert seen(loaded) == [(ALICE, 1, 7)]


def test_strata_run_loads_them_where_nothing_else_is_new(
    loaded: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STRATA_LAKE", "0")
    assert run(loaded, "run", "--archive", loaded.archive)[0] == 0
    write(loaded, 7, capture(ALICE, 1), "no capture")

    code, result = run(loaded, "run", "--archive", loaded.archive)

    assert (code, len(result["refused_captures"])) == (1, 1)
    assert seen(loaded) == [(ALICE, 1, 7)]
