"""Merging volumes from the command line and by Dagster."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from pipelines.assembly import definitions
from pipelines.commands.group import strata
from pipelines.settings import Settings
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.pipelines.kit import blocks, make_segment, site_settings
from tests.segments_kit import table_rows

LOADS = 6  # of at least 400 kB each: together they are worth merging
ROWS, ROW_BYTES = 400, 1000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A warehouse of as many volumes as are worth merging, one for each segment."""
    settings = site_settings(tmp_path_factory.mktemp("template"))
    chance = random.Random(0)
    for number in range(LOADS):
        rows = [{"reference": chance.randbytes(ROW_BYTES).hex()} for _ in range(ROWS)]
        orders = table_rows("orders", *rows, first=blocks(number)[0].first)
        make_segment(settings, number, tables={"orders": orders})
    site = Site(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transforms.warehouse.merge.compaction.merge", lambda *_: None)
        for file in site.warehouse.survey(site.source).pending:
            site.warehouse.load(site.source, [file], site.stage)
    return settings


@pytest.fixture
def scattered(template: Settings, tmp_path: Path) -> Settings:
    """A copy of the template, to be merged."""
    settings = site_settings(tmp_path)
    shutil.copytree(template.source, settings.source, dirs_exist_ok=True)
    shutil.copytree(template.warehouse, settings.warehouse, symlinks=True)
    return settings


def volumes(settings: Settings) -> int:
    return len(Site(settings).loaded_catalog().snapshot.history)


def test_the_command_merges_once_and_then_has_nothing_to_do(scattered: Settings) -> None:
    asked = ["compact", "--warehouse", str(scattered.warehouse), "--json"]
    first = json.loads(CliRunner().invoke(strata, asked).stdout)
    second = json.loads(CliRunner().invoke(strata, asked).stdout)

    assert len(first["merged"]) == 1
    assert (first["volumes"], volumes(scattered)) == (1, 1)
    assert second == {"merged": [], "volumes": 1}


def test_the_job_merges_and_every_table_still_renders_to_its_bytes(
    scattered: Settings, instance: dg.DagsterInstance
) -> None:
    job = definitions(scattered).resolve_job_def("compact")
    before = volumes(scattered)

    done = job.execute_in_process(instance=instance)

    assert done.success
    assert (before, volumes(scattered)) == (LOADS, 1)
    assert [one for one in verify_site(Site(scattered)) if "volume" in one.place] == []
