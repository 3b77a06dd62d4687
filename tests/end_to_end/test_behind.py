"""How far the warehouse is behind: one number, wherever it is said."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pipelines.settings import Settings
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.api.server_kit import serving
from tests.api.server_kit import settings as server_settings
from tests.command_kit import run_strata
from tests.pipelines.kit import make_segment, site_settings
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Blocks 1-10 and 31-40 loaded, a gap, 21-30 damaged, 41-50 cut short."""
    settings = site_settings(tmp_path_factory.mktemp("behind"))
    for number in (0, 2, 3, 4):
        path = make_segment(settings, number)
        if number in (2, 4):
            path.write_bytes(path.read_bytes()[:-100])
    assert _strata(settings, "load").returncode == 1
    return settings


def _strata(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "STRATA_SOURCE": settings.source,
        "STRATA_WAREHOUSE": settings.warehouse,
        "STRATA_ARCHIVE": settings.archive,
        "STRATA_LAKE": "0",
    }
    return run_strata(*arguments, environment=environment)


def test_status_says_what_the_source_shows_and_the_warehouse_lacks(settings: Settings) -> None:
    facts = json.loads(_strata(settings, "status", "--json").stdout)
    assert facts["blocks_behind"] == 20
    assert len(facts["quarantined"]) == 2
    assert facts["gaps"]["loaded"] == ["11-30"]
    text = _strata(settings, "status").stdout
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert " 20 " in rows["loaded"]
    assert "2 files cannot be used: replace or remove them in the source" in text


def test_the_status_and_the_server_say_the_same(settings: Settings) -> None:
    status = site_status(Site(settings))
    assert status.survey.blocks_behind == 20
    with serving(server_settings(settings)) as served, served.client() as client:
        wait_until(lambda: client.get("/ready").json()["blocksBehind"] is not None)
        ready = client.get("/ready").json()
        metrics = client.get("/metrics").text
    assert ready["blocksBehind"] == 20
    assert "strata_blocks_behind 20.0" in metrics
    assert (ready["gaps"], ready["blocksMissing"], ready["filesQuarantined"]) == (1, 20, 2)
    quarantined = [{"file": file, "reason": reason} for file, reason in status.refused.items()]
    assert ready["quarantined"] == quarantined


def test_a_corrected_source_is_followed_to_the_end(settings: Settings) -> None:
    """The remedy of `status`: the damaged file is replaced, the other one removed."""
    for path in Path(settings.source).iterdir():
        if path.name.endswith("-41-50.zip"):
            path.unlink()
    make_segment(settings, 2)
    assert _strata(settings, "load").returncode == 0
    assert json.loads(_strata(settings, "status", "--json").stdout)["blocks_behind"] == 0


def test_a_file_that_changed_after_it_was_loaded_is_no_success(settings: Settings) -> None:
    path = make_segment(settings, 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    load = _strata(settings, "load")
    assert load.returncode == 1
    assert "changed after it was loaded" in load.stdout
    path.write_bytes(whole)
    assert _strata(settings, "load").returncode == 0
