"""What Dagster sees: it loads, and everything is there under its name."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines import step_failures
from pipelines.assembly import definitions
from pipelines.assets.keys import export_key, table_key
from pipelines.event_log import BatchedSqliteEventLogStorage
from pipelines.instance import open_instance
from pipelines.settings import Settings
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from pipelines.step_failures import retried_if_transient
from tests.data_node_kit import data_node, node_history
from tests.pipelines.conftest import MakeSegments
from tests.pipelines.kit import blocks, load
from transforms.errors import BusyError, ConflictError, IntegrityError, SegmentError
from transforms.tables.registry import HISTORY_TABLES

ROOT = Path(__file__).resolve().parents[2]


def test_every_table_is_an_asset_in_both_places(settings: Settings) -> None:
    graph = definitions(settings).resolve_asset_graph()

    for table in HISTORY_TABLES:
        exported = graph.get(export_key(table))
        assert exported.parent_keys == {table_key(table)}
        assert exported.backfill_policy == dg.BackfillPolicy.multi_run(settings.batch)
        assert graph.get(table_key(table)).partitions_def == exported.partitions_def
    names = {"/".join(key.path) for key in graph.get_all_asset_keys()}
    assert names >= {"warehouse/current_state", "archive/index"}


def test_jobs_sensor_and_schedules_are_there(settings: Settings) -> None:
    repository = definitions(settings).get_repository_def()

    assert {job.name for job in repository.get_all_jobs()} >= {
        *("load", "publish", "load_and_publish", "export_range", "verify")
    }
    assert {sensor.name for sensor in repository.sensor_defs} == {"new_segments"}
    for sensor in repository.sensor_defs:
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert {schedule.name for schedule in repository.schedule_defs} >= {
        *("verify_quickly_every_day", "verify_every_week")
    }
    for schedule in repository.schedule_defs:
        if schedule.name.startswith("verify"):  # what they are configured with must be valid
            with dg.build_schedule_context() as context:
                assert schedule.evaluate_tick(context).run_requests
            assert dg.validate_run_config(repository.get_job("verify"), _asked(schedule))


def _asked(schedule: dg.ScheduleDefinition) -> dict[str, object]:
    with dg.build_schedule_context() as context:
        (request,) = schedule.evaluate_tick(context).run_requests or ()
    return dict(request.run_config)


def test_nobody_collects_whose_user_may_not_until_it_is_turned_on() -> None:
    """That a node is set may be for `strata status` alone."""
    repository = definitions(Settings(node="http://127.0.0.1:3008")).get_repository_def()

    (schedule,) = (s for s in repository.schedule_defs if s.name == "collect_every_ten_minutes")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED


def test_the_job_collects_and_fails_where_a_segment_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    node_history(tmp_path / "history", 2)
    with data_node(tmp_path / "history") as node:
        node.instead[node.id_of(1)] = b"something else"
        at_node = replace(settings, node=node.url, node_socket=node.socket)
        job = definitions(at_node).resolve_job_def("collect")

        refused = job.execute_in_process(raise_on_error=False)
        node.instead.clear()
        done = job.execute_in_process()

    (failure,) = refused.filter_events(lambda event: event.is_step_failure)
    assert "segment 11-20: the node lies" in str(failure.step_failure_data.user_failure_data)
    assert _metadata(done)["collected"].value == 1
    names = [path.name for path in sorted(Path(settings.source).glob("*.zip"))]
    assert names == ["kit-chain-1-1-10.zip", "kit-chain-1-11-20.zip"]


def _metadata(result: dg.ExecuteInProcessResult) -> Mapping[str, Any]:
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    return output.step_output_data.metadata


def test_the_instance_works_as_it_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "put back after the test")
    monkeypatch.delenv("DAGSTER_EVENT_BATCH_SIZE", raising=False)

    with open_instance(tmp_path / "home") as instance:
        assert isinstance(instance.event_log_storage, BatchedSqliteEventLogStorage)
        assert instance.telemetry_enabled is False
        assert instance.nux_enabled is False
        assert instance.run_monitoring_enabled
        assert os.environ["DAGSTER_EVENT_BATCH_SIZE"] == "1000"
    assert (tmp_path / "home" / "history" / "event_log.db").exists()


def test_the_configuration_in_the_package_is_the_one_in_dagster_home() -> None:
    ours = files("pipelines").joinpath("dagster.yaml").read_bytes()

    assert ours == (ROOT / "dagster_home" / "dagster.yaml").read_bytes()


def test_a_folder_with_a_configuration_of_its_own_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "put back after the test")
    own = tmp_path / "dagster.yaml"
    own.write_text("telemetry:\n  enabled: false\n")

    with open_instance(tmp_path):
        pass

    assert own.read_text() == "telemetry:\n  enabled: false\n"


@pytest.mark.parametrize(
    "error", [BusyError("held"), ConnectionError("lost"), TimeoutError("late")]
)
def test_a_transient_error_is_tried_again_later_each_time(error: Exception) -> None:
    waits = []
    for attempt in range(3):
        with pytest.raises(dg.RetryRequested) as asked, retried_if_transient(attempt):
            raise error
        assert asked.value.max_retries == step_failures.MOST_RETRIES
        waits.append(asked.value.seconds_to_wait)

    assert waits == [5.0, 10.0, 20.0]
    with pytest.raises(dg.Failure), retried_if_transient(step_failures.MOST_RETRIES):
        raise error


@pytest.mark.parametrize(
    "error",
    [SegmentError("bad"), ConflictError("other"), IntegrityError("damaged")],
)
def test_any_other_error_reaches_a_person_at_once(error: Exception) -> None:
    with pytest.raises(dg.Failure) as caught, retried_if_transient(0):
        raise error
    assert caught.value.description == str(error)
    assert not caught.value.allow_retries


def test_what_the_machine_says_fails_a_step_with_a_sentence() -> None:
    with pytest.raises(dg.Failure) as caught, retried_if_transient(0):
        raise OSError(errno.ENOSPC, "No space left on device", "/data/volumes/x")

    assert caught.value.description == (
        "/data/volumes/x: No space left on device: free some room there, then run it again"
    )


@pytest.fixture
def loaded(site: Site, make_segments: MakeSegments) -> Site:
    make_segments(2)
    load(site)
    return site


def execute(site: Site, job: str, **config: object) -> dg.ExecuteInProcessResult:
    op = "prove_everything" if job == "verify" else "write_export"
    ops = {"ops": {op: {"config": config}}} if config else {}
    return (
        definitions(site.settings)
        .resolve_job_def(job)
        .execute_in_process(
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, **ops},
            raise_on_error=False,
        )
    )


def test_the_export_job_writes_the_zip_of_its_configuration(loaded: Site, tmp_path: Path) -> None:
    wanted = {"table": "blocks", "from_block": 1, "to_block": 20, "out": str(tmp_path / "out")}

    assert execute(loaded, "export_range", **wanted).success
    assert (tmp_path / "out" / "kit-chain-blocks-1-20.zip").exists()
    assert not execute(loaded, "export_range", **{**wanted, "to_block": 15}).success


def test_the_verify_job_fails_where_something_does_not_match(loaded: Site) -> None:
    loaded = Site(replace(loaded.settings, lake=False))
    publish_segments(loaded, blocks(0, 1))
    sound = execute(loaded, "verify")
    assert sound.success
    (output,) = sound.filter_events(lambda event: event.is_successful_output)
    summary = output.step_output_data.metadata["summary"].value
    assert str(summary).startswith("Everything matches")
    part = next((loaded.warehouse.cache / "data").glob("*/*.parquet"))
    part.unlink()

    failed = execute(loaded, "verify")

    (event,) = failed.filter_events(lambda event: event.is_step_failure)
    data = event.step_failure_data.user_failure_data
    assert data is not None
    assert f"1 findings: missing: {part}: it is missing" in (data.description or "")


def test_the_verify_job_takes_a_sample(loaded: Site) -> None:
    publish_segments(loaded, blocks(0, 1))
    assert execute(loaded, "verify", quick=True).success


def test_a_step_that_loses_its_connection_is_tried_again_and_then_fails(
    loaded: Site, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    """A bucket that does not answer, at an address where nobody listens."""
    monkeypatch.setattr(step_failures, "FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(step_failures, "MOST_RETRIES", 1)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    settings = Settings(warehouse=loaded.settings.warehouse, archive="s3://bucket/exports")
    instance.add_dynamic_partitions("segments", [one.key for one in blocks(0)])

    result = (
        definitions(settings)
        .resolve_job_def("publish")
        .execute_in_process(
            instance=instance,
            partition_key=blocks(0)[0].key,
            asset_selection=[export_key("blocks")],
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )
    )

    assert not result.success
    again = result.filter_events(lambda event: event.is_step_restarted)
    assert len(again) == 1


def test_the_job_that_looks_at_the_archive_makes_again_what_is_missing(
    settings: Settings, make_segments: MakeSegments, instance: dg.DagsterInstance
) -> None:
    make_segments(1)
    site = Site(settings)
    load(site)
    publish_segments(site, blocks(0))
    pages = list(Path(settings.archive).rglob("index.html"))
    for page in pages:
        page.unlink()
    job = definitions(settings).resolve_job_def("complete")
    assert job.execute_in_process(instance=instance).success
    assert all(page.exists() for page in pages)
    (orders,) = Path(settings.archive).rglob("*-orders-1-10.zip")
    orders.write_bytes(b"other bytes")
    failed = job.execute_in_process(instance=instance, raise_on_error=False)
    (event,) = failed.filter_events(lambda event: event.is_step_failure)
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    assert "strata publish --replace REASON --table orders --blocks 1-10" in str(
        failure.description
    )
