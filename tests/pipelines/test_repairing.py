"""`strata repair`: what it shows, and its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipelines.commands.group import strata
from pipelines.settings import Settings
from pipelines.site.site import Site
from tests.pipelines.kit import load, make_segment, site_settings


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A warehouse of two volumes, and `backup`, its log before the second."""
    settings = site_settings(tmp_path_factory.mktemp("template"))
    make_segment(settings, 0)
    load(Site(settings))
    shutil.copytree(Path(settings.warehouse, "log"), Path(settings.warehouse).parent / "backup")
    make_segment(settings, 1)
    load(Site(settings))
    return settings


@pytest.fixture
def settings(template: Settings, tmp_path: Path) -> Settings:
    """A copy of the template."""
    copy = site_settings(tmp_path)
    shutil.copytree(Path(template.warehouse).parent, tmp_path, dirs_exist_ok=True)
    return copy


def _run(settings: Settings, *options: str) -> Result:
    asked = ["repair", "--warehouse", settings.warehouse, *options]
    return CliRunner().invoke(strata, asked, standalone_mode=False)


def _json(settings: Settings, *options: str) -> tuple[int, dict[str, Any]]:
    result = _run(settings, *options, "--json")
    return result.return_value, json.loads(result.stdout)


def test_a_sound_warehouse_ends_with_0_and_what_was_read(settings: Settings) -> None:
    result = _run(settings)
    assert result.return_value == 0
    assert "Nothing is wrong. The newest snapshot is " in result.stdout
    assert _json(settings)[0] == 0


def test_findings_are_shown_and_repaired_and_then_gone(settings: Settings) -> None:
    missing = Site(settings).loaded_catalog().snapshot.history[0].key
    Path(settings.warehouse, missing).unlink()

    code, said = _json(settings)
    assert code == 5
    assert said["findings"][0]["what"] == missing
    assert said["findings"][0]["problem"] == "it is missing"
    assert _json(settings)[0] == 0


def test_an_older_log_takes_in_volumes(settings: Settings) -> None:
    log = Path(settings.warehouse, "log")
    shutil.rmtree(log)
    shutil.copytree(Path(settings.warehouse).parent / "backup", log)
    assert _json(settings)[0] == 5
    assert len(Site(settings).loaded_catalog().snapshot.history) == 2
    assert _run(settings).return_value == 0
