"""Two machines with a warehouse each under one Dagster: no run goes on with the wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from pipelines.assembly import definitions
from pipelines.assets.same_warehouse import PLACE_TAG, WAREHOUSE_TAG
from pipelines.discovery import segment_sensor
from pipelines.jobs import load_and_publish
from pipelines.running import run_everything
from pipelines.settings import Settings
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.pipelines.conftest import MakeSegments
from tests.pipelines.kit import blocks


@pytest.fixture
def other(settings: Settings, tmp_path: Path) -> Settings:
    """The settings of a machine that has the same source and archive, and its own warehouse."""
    return replace(settings, warehouse=str(tmp_path / "other_warehouse"))


@pytest.fixture
def tags(
    settings: Settings,
    home_instance: dg.DagsterInstance,
    make_segments: MakeSegments,
) -> dict[str, str]:
    """The tags of the run that the first machine's sensor asks for, over one segment."""
    make_segments(1)
    sensor = segment_sensor(load_and_publish.name, settings)
    with dg.build_sensor_context(
        instance=home_instance, resources={"site": Site(settings)}
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    home_instance.add_dynamic_partitions("segments", [segment.key for segment in blocks(0)])
    (request,) = result.run_requests or ()
    return dict(request.tags)


def run(
    settings: Settings, job: str, instance: dg.DagsterInstance, tags: Mapping[str, str]
) -> dg.ExecuteInProcessResult:
    return (
        definitions(settings)
        .resolve_job_def(job)
        .execute_in_process(instance=instance, tags=dict(tags), raise_on_error=False)
    )


def reasons(result: dg.ExecuteInProcessResult) -> set[str]:
    """Why steps failed."""
    found = set()
    for event in result.filter_events(lambda event: event.is_step_failure):
        failure = event.step_failure_data.user_failure_data
        assert failure is not None, event.step_failure_data.error
        found.add(failure.description or "")
    return found


def identity(settings: Settings) -> str:
    snapshot = Site(settings).warehouse.snapshot()
    return snapshot.warehouse if snapshot else ""


def test_a_run_that_the_sensor_asked_for_goes_on_with_its_warehouse_only(
    settings: Settings,
    other: Settings,
    home_instance: dg.DagsterInstance,
    tags: dict[str, str],
) -> None:
    assert tags[WAREHOUSE_TAG] == identity(settings)
    assert tags[PLACE_TAG].startswith(settings.warehouse)

    elsewhere = run(other, "load", home_instance, tags)
    here = run(settings, "load", home_instance, tags)

    (reason,) = reasons(elsewhere)
    assert f"for the warehouse {identity(settings)} at {settings.warehouse}" in reason
    assert f"{other.warehouse} on " in reason
    assert "holds nothing" in reason
    assert "STRATA_WAREHOUSE" in reason
    assert not Path(other.warehouse, "log").exists()
    assert here.success


def test_the_command_line_goes_on_with_the_warehouse_it_finds(
    settings: Settings,
    other: Settings,
    home_instance: dg.DagsterInstance,
    tags: dict[str, str],
    tmp_path: Path,
) -> None:
    assert run(settings, "load", home_instance, tags).success
    finished: list[str] = []

    site = Site(other)
    run_everything(
        site,
        site_status(site),
        tmp_path / "dagster_home",
        lambda done: finished.append(done.failure),
    )

    assert finished == [""]
