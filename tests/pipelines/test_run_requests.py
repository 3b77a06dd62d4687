from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from pipelines.batches import Batch
from pipelines.partitions import SEGMENTS, range_tags
from pipelines.run_requests import BATCH_TAG, MOST_AT_ONCE, batch_tags, run_requests
from tests.pipelines.kit import blocks

FIRST, SECOND = Batch(blocks(0, 1, 2)), Batch(blocks(3, 4))
PARTITIONS = [segment.key for segment in (*FIRST.segments, *SECOND.segments)]


@dg.asset(partitions_def=SEGMENTS)
def anything() -> None: ...


JOB = dg.Definitions(assets=[anything], jobs=[dg.define_asset_job("anything_job")]).resolve_job_def(
    "anything_job"
)


def start(
    instance: dg.DagsterInstance, tags: dict[str, str], status: dg.DagsterRunStatus
) -> dg.DagsterRun:
    instance.add_dynamic_partitions("segments", PARTITIONS)
    run = instance.create_run_for_job(JOB, tags=tags)
    if status is dg.DagsterRunStatus.FAILURE:
        instance.report_run_failed(run)
    elif status is dg.DagsterRunStatus.SUCCESS:
        instance.handle_new_event(
            dg.EventLogEntry(  # type: ignore[no-untyped-call]
                error_info=None,
                level="INFO",
                user_message="",
                run_id=run.run_id,
                timestamp=datetime.now(UTC).timestamp(),
                dagster_event=dg.DagsterEvent("PIPELINE_SUCCESS", JOB.name),
            )
        )
    return run


def keys(requests: Iterable[dg.RunRequest]) -> list[str]:
    return [request.tags[BATCH_TAG] for request in requests]


def test_each_batch_is_requested_once_with_its_partition_range(
    instance: dg.DagsterInstance,
) -> None:
    requests = list(run_requests(instance, [FIRST, SECOND], PARTITIONS, datetime.now(UTC)))

    assert keys(requests) == ["1-30", "31-50"]
    assert requests[0].tags["dagster/asset_partition_range_start"] == "000000001-000000010"
    assert requests[0].tags["dagster/asset_partition_range_end"] == "000000021-000000030"
    assert len({request.run_key for request in requests}) == 2


@pytest.mark.parametrize(
    "tags",
    [
        batch_tags(FIRST),
        range_tags(blocks(2)[0], blocks(2)[0]),
        {"dagster/partition": blocks(1)[0].key},
    ],
    ids=["our own run", "a backfill's range", "one partition by hand"],
)
def test_a_batch_is_not_requested_while_a_run_works_on_any_of_it(
    instance: dg.DagsterInstance, tags: dict[str, str]
) -> None:
    start(instance, tags, dg.DagsterRunStatus.NOT_STARTED)

    assert keys(run_requests(instance, [FIRST, SECOND], PARTITIONS, datetime.now(UTC))) == ["31-50"]


@pytest.mark.parametrize(
    ("partitions", "run", "expected"),
    [
        ((4, 0, 1, 2, 3), (4, 1), ["21-30", "31-40"]),
        ((0, 4, 1, 2, 3), (1, 3), ["1-10", "41-50"]),
        ((0, 1, 2, 4), (3, 3), ["1-10", "11-20", "21-30", "41-50"]),
        ((0, 1, 2, 4), (3, 4), ["1-10", "11-20", "21-30"]),
    ],
    ids=["older history came later", "newer came earlier", "one deleted", "its start deleted"],
)
def test_a_run_keeps_the_partitions_that_were_added_between_its_ends(
    instance: dg.DagsterInstance,
    partitions: tuple[int, ...],
    run: tuple[int, int],
    expected: list[str],
) -> None:
    instance.add_run(dg.DagsterRun(JOB.name, tags=range_tags(*blocks(*run))))
    added = [segment.key for segment in blocks(*partitions)]
    alone = [Batch(blocks(number)) for number in range(5)]

    assert keys(run_requests(instance, alone, added, datetime.now(UTC))) == expected


@pytest.mark.parametrize("ends", [("my-test", "my-test"), ("my-test", PARTITIONS[1]), ("x", "y")])
def test_a_run_over_a_partition_that_is_no_segment_does_not_stop_the_others(
    instance: dg.DagsterInstance, ends: tuple[str, str]
) -> None:
    tags = {
        "dagster/asset_partition_range_start": ends[0],
        "dagster/asset_partition_range_end": ends[1],
    }
    instance.add_run(dg.DagsterRun(JOB.name, tags=tags))
    added = ["my-test", *PARTITIONS]

    assert keys(run_requests(instance, [SECOND], added, datetime.now(UTC))) == ["31-50"]


@pytest.mark.parametrize("ended", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS])
@pytest.mark.parametrize(
    ("runs", "pause"),
    [(1, timedelta(minutes=1)), (2, timedelta(minutes=10)), (9, timedelta(minutes=10))],
)
def test_a_segment_still_to_do_after_its_runs_waits_and_comes_again(
    instance: dg.DagsterInstance, runs: int, pause: timedelta, ended: dg.DagsterRunStatus
) -> None:
    alone = Batch(blocks(0))
    for _ in range(runs):
        start(instance, batch_tags(alone), ended)
    now = datetime.now(UTC)

    assert keys(run_requests(instance, [alone], PARTITIONS, now + pause * 0.9)) == []
    assert keys(run_requests(instance, [alone], PARTITIONS, now + pause)) == ["1-10"]


def test_a_batch_that_failed_comes_again_in_halves_until_its_bad_segment_stands_alone(
    instance: dg.DagsterInstance,
) -> None:
    later = datetime.now(UTC) + timedelta(minutes=2)

    start(instance, batch_tags(FIRST), dg.DagsterRunStatus.FAILURE)
    assert keys(run_requests(instance, [FIRST], PARTITIONS, later)) == ["1-10", "11-30"]
    start(instance, batch_tags(Batch(blocks(1, 2))), dg.DagsterRunStatus.FAILURE)
    assert keys(run_requests(instance, [FIRST], PARTITIONS, later)) == ["1-10", "11-20", "21-30"]


def test_a_repeated_request_has_another_key_so_that_dagster_takes_it(
    instance: dg.DagsterInstance,
) -> None:
    alone = Batch(blocks(0))
    (before,) = run_requests(instance, [alone], PARTITIONS, datetime.now(UTC))
    start(instance, batch_tags(alone), dg.DagsterRunStatus.FAILURE)
    (after,) = run_requests(instance, [alone], PARTITIONS, datetime.now(UTC) + timedelta(hours=1))

    assert before.run_key != after.run_key


def test_a_repair_makes_another_batch_which_does_not_wait(instance: dg.DagsterInstance) -> None:
    start(instance, batch_tags(FIRST), dg.DagsterRunStatus.FAILURE)
    without_the_refused_one = [Batch(blocks(0)), Batch(blocks(2))]

    requests = run_requests(instance, without_the_refused_one, PARTITIONS, datetime.now(UTC))

    assert keys(requests) == ["1-10", "21-30"]


def test_a_long_history_is_requested_a_few_runs_at_a_time(instance: dg.DagsterInstance) -> None:
    many = [Batch(blocks(number)) for number in range(MOST_AT_ONCE + 5)]

    assert len(list(run_requests(instance, many, PARTITIONS, datetime.now(UTC)))) == MOST_AT_ONCE
