from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from exporters.locations import dagster_home
from pipelines.discovery import segment_sensor
from pipelines.instance import COMMAND_LINE_TAG, only_command_line
from pipelines.jobs import load_and_publish
from pipelines.partitions import range_tags
from pipelines.run_requests import BATCH_TAG
from pipelines.settings import Settings
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.pipelines.conftest import MakeSegments
from tests.pipelines.kit import blocks, load


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster_home"))


def look(settings: Settings, instance: dg.DagsterInstance) -> dg.SensorResult:
    """Let the sensor look once, and do what the daemon does with its answer."""
    sensor = segment_sensor(load_and_publish.name, settings)
    with dg.build_sensor_context(instance=instance, resources={"site": Site(settings)}) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    for request in result.dynamic_partitions_requests or ():
        instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
    return result


def test_new_segments_become_partitions_and_runs_over_them(
    settings: Settings, instance: dg.DagsterInstance, make_segments: MakeSegments
) -> None:
    make_segments(7)

    result = look(settings, instance)

    assert instance.get_dynamic_partitions("segments") == [
        segment.key for segment in blocks(*range(7))
    ]
    assert [request.tags[BATCH_TAG] for request in result.run_requests or ()] == [
        "1-30",
        "31-60",
        "61-70",
    ]


def test_a_segment_that_comes_late_gets_a_run_that_takes_only_it(
    settings: Settings, instance: dg.DagsterInstance, make_segments: MakeSegments
) -> None:
    make_segments(1)
    make_segments(1, at=2)
    look(settings, instance)
    make_segments(1, at=1)

    result = look(settings, instance)

    ranges = [request.tags[BATCH_TAG] for request in result.run_requests or ()]
    assert ranges == ["1-10", "11-20", "21-30"]


def test_a_machine_without_room_requests_no_run_and_says_why(
    settings: Settings, home_instance: dg.DagsterInstance, make_segments: MakeSegments
) -> None:
    make_segments(1)

    without_room = look(replace(settings, free_mb=10**12), home_instance)
    with_room = look(settings, home_instance)

    assert without_room.run_requests == []
    assert without_room.skip_reason is not None
    said = str(without_room.skip_reason.skip_message)
    assert said.startswith(f"no run is requested: {settings.warehouse} has ")
    assert len(with_room.run_requests or ()) == 1


def test_a_machine_without_room_requests_runs_that_others_execute(
    settings: Settings, tmp_path: Path, make_segments: MakeSegments
) -> None:
    make_segments(1)
    home = tmp_path / "celery"
    home.mkdir()
    launcher = {"module": "dagster_celery.launcher", "class": "CeleryRunLauncher"}
    (home / "dagster.yaml").write_text(json.dumps({"run_launcher": launcher}))

    with dg.DagsterInstance.from_config(str(home)) as instance:
        result = look(replace(settings, free_mb=10**12), instance)

    assert len(result.run_requests or ()) == 1


def test_a_gap_is_never_inside_a_run(
    settings: Settings, instance: dg.DagsterInstance, make_segments: MakeSegments
) -> None:
    make_segments(1)
    make_segments(1, at=2)

    result = look(settings, instance)

    assert [request.tags[BATCH_TAG] for request in result.run_requests or ()] == ["1-10", "21-30"]


def test_an_empty_source_asks_for_nothing(settings: Settings, instance: dg.DagsterInstance) -> None:
    result = look(settings, instance)

    assert not result.run_requests
    assert not result.dynamic_partitions_requests
    assert result.skip_reason is not None
    assert str(result.skip_reason.skip_message).startswith("0 of 0 segments are published")


def test_the_run_of_a_killed_command_line_does_not_keep_its_segments_for_ever(
    settings: Settings, instance: dg.DagsterInstance, make_segments: MakeSegments
) -> None:
    make_segments(1)
    tags = {**COMMAND_LINE_TAG, **range_tags(*blocks(0), *blocks(0))}
    instance.add_run(dg.DagsterRun("load", status=dg.DagsterRunStatus.STARTED, tags=tags))

    assert len(look(settings, instance).run_requests or ()) == 1


def test_the_run_of_a_command_line_at_work_keeps_its_segments(
    settings: Settings, instance: dg.DagsterInstance, make_segments: MakeSegments
) -> None:
    make_segments(1)
    with only_command_line(instance, dagster_home()):
        tags = {**COMMAND_LINE_TAG, **range_tags(*blocks(0), *blocks(0))}
        instance.add_run(dg.DagsterRun("load", status=dg.DagsterRunStatus.STARTED, tags=tags))

        assert not look(settings, instance).run_requests


def test_a_file_that_is_no_segment_is_quarantined_and_asks_for_nothing(
    settings: Settings, site: Site, instance: dg.DagsterInstance
) -> None:
    Path(settings.source, "notes.zip").write_bytes(b"")

    assert not look(settings, instance).run_requests
    assert [file.key for file in site.warehouse.snapshot().quarantine] == ["notes.zip"]


def test_a_partition_that_somebody_deleted_comes_back_at_the_next_look(
    settings: Settings, instance: dg.DagsterInstance, make_segments: MakeSegments
) -> None:
    make_segments(3)
    look(settings, instance)
    instance.delete_dynamic_partition("segments", blocks(1)[0].key)

    again = look(settings, instance)

    ranges = [request.tags[BATCH_TAG] for request in again.run_requests or ()]
    assert ranges == ["1-10", "11-20", "21-30"]
    load(Site(settings))
    publish_segments(Site(settings), blocks(0, 1, 2))
    for number in (0, 2):
        instance.delete_dynamic_partition("segments", blocks(number)[0].key)
    instance.add_dynamic_partitions("segments", ["added-by-hand", "2"])

    assert not look(settings, instance).run_requests
    expected = {*(segment.key for segment in blocks(0, 1, 2)), "added-by-hand", "2"}
    assert {*instance.get_dynamic_partitions("segments")} == expected


def test_the_whole_history_of_mainnet_can_appear_at_once(
    settings: Settings, home_instance: dg.DagsterInstance
) -> None:
    folder = os.open(settings.source, os.O_DIRECTORY)
    for number in range(75_000):
        name = f"mainnet-0011-73-{number * 300 + 1}-{(number + 1) * 300}.zip"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    started = time.monotonic()

    result = look(settings, home_instance)

    assert time.monotonic() - started < 60  # a sensor's limit, by default
    keys = home_instance.get_dynamic_partitions("segments")
    assert len(keys) == 75_000
    assert keys == sorted(keys)
    assert all(len(r.partition_keys) <= 25_000 for r in result.dynamic_partitions_requests or ())
    assert len(result.run_requests or ()) == 20


def test_a_run_that_was_only_written_down_when_its_process_was_interrupted_is_ended(
    instance: dg.DagsterInstance,
) -> None:
    run = dg.DagsterRun("load", status=dg.DagsterRunStatus.NOT_STARTED, tags=COMMAND_LINE_TAG)

    def interrupted() -> None:
        with only_command_line(instance, dagster_home()):
            instance.add_run(run)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.CANCELED
