"""Three machines load a history by themselves while their processes are killed.

They are set up by the manual, each in a folder of its own, and share nothing but PostgreSQL, Valkey
and the buckets of SeaweedFS. What comes out is what one machine makes of the same segments.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipelines.assets.keys import export_key, table_key
from pipelines.settings import Settings
from tests.cluster.cluster_kit import (
    MOST_SECONDS,
    Cluster,
    archive_of_one_machine,
    cluster,
    serve,
    without_lake,
)
from tests.pipelines.kit import blocks, make_segment
from transforms.tables.registry import HISTORY_TABLES

pytestmark = pytest.mark.cluster

FIRST, LATER, AGAIN = 60, 5, 10
"""How many segments there are from the beginning, how many come in the end, and how many are made
once more by a backfill."""
LOCKS = (
    *("deadlock detected", "could not obtain lock", "could not serialize access"),
    *("lock timeout", "database is locked", "lock not available"),
)
_BACKFILL = """
mutation Backfill($asked: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $asked) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
_STATUS = """
query Status($backfill: String!) {
  partitionBackfillOrError(backfillId: $backfill) {
    ... on PartitionBackfill { status partitionStatuses { results { runStatus } } }
  }
}
"""
_TIME = "/api/v2/vega/time"
_EXPORT = "/api/v2/networkhistory/export?fromBlock=1&toBlock=600&table=5"


@dataclass(slots=True)
class Outcome:
    """What was seen on the way, and what there is in the end."""

    machine_killed: str = ""
    process_killed: str = ""
    backfill: str = ""
    finished_by_stopped_worker: str = ""
    answers: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    followed: bool = False
    status: str = ""
    verified: tuple[int, str] = (-1, "")
    archive: dict[str, bytes] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    database_log: str = ""
    dagster_log: str = ""
    seconds: dict[str, float] = field(default_factory=dict)


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The history, with a damaged file after its first part."""
    settings = Settings(source=str(tmp_path_factory.mktemp("segments")))
    made = [make_segment(settings, number) for number in range(FIRST + LATER)]
    damaged = make_segment(settings, FIRST + LATER, corrupt=lambda data: data[: len(data) // 2])
    return [*made, damaged]


@pytest.fixture(scope="module")
def outcome(segments: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Everything that happens to the three machines, once."""
    seen = Outcome()
    began = time.monotonic()

    def done(what: str) -> None:
        seen.seconds[what] = round(time.monotonic() - began)
        print(what, seen.seconds[what], flush=True)

    with cluster(tmp_path_factory.mktemp("cluster")) as built:
        done("set up")
        built.upload(*segments[:FIRST])
        _, second, _ = built.machines
        of_machine = built.stopped_work(second)
        of_machine.worker.kill()
        done("worker killed")
        others = [machine for machine in built.machines if machine is not second]
        of_process = built.stopped_work(*others)
        os.kill(of_process.process, signal.SIGKILL)
        done("process of a run killed")
        daemon = built.machines[0].services["strata-daemon"]
        daemon.kill()
        built.upload(segments[-1])
        daemon.start()
        done("daemon killed and started again")
        seen.process_killed = built.failure_of(of_process.run)
        seen.machine_killed = built.failure_of(of_machine.run)
        second.start("strata-worker")
        built.wait_for(lambda: built.is_complete(FIRST), 600)
        done("complete")
        seen.backfill = backfill(built)
        done("backfill")
        serve(built)
        outlive_the_bucket(built, seen)
        done("bucket away and back")
        before = built.get(_TIME).content
        built.upload(*segments[FIRST : FIRST + LATER])
        seen.finished_by_stopped_worker = stop_at_work(built)
        done("workers stopped and started again")
        built.wait_for(lambda: built.is_complete(FIRST + LATER), 600)
        built.wait_for(lambda: built.get(_TIME).content != before)
        seen.followed = True
        first = built.machines[0]
        seen.status = built.final_status()
        checked = first.strata("verify")
        seen.verified = (checked.returncode, checked.stdout + checked.stderr)
        seen.archive = built.archive()
        seen.unfinished = built.unfinished()
        seen.database_log = built.database.logged()
        seen.dagster_log = "\n".join(one.logged() for one in built.machines)
        done("verified")
    return seen


def stop_at_work(built: Cluster) -> str:
    """Stop all workers, as systemd does, while one works; returns how its run ended."""
    built.wait_for(lambda: any(built.process_of(run) for run in built.runs("STARTED")))
    (run,) = built.runs("STARTED")[:1]
    for machine in built.machines:
        machine.services["strata-worker"].stop()
    result = built.end_of(run)
    for machine in built.machines:
        machine.start("strata-worker")
    return result


def backfill(built: Cluster) -> str:
    """Ask Dagster's web interface to make segments again; returns what became of it."""
    keys = [*map(table_key, HISTORY_TABLES), *map(export_key, HISTORY_TABLES)]
    asked = {
        "assetSelection": [{"path": list(key.path)} for key in keys],
        "partitionNames": [segment.key for segment in blocks(*range(AGAIN))],
    }
    answer = built.ask_dagster(_BACKFILL, asked=asked)["launchPartitionBackfill"]
    assert answer["__typename"] == "LaunchBackfillSuccess", answer

    def status() -> str:
        told = built.ask_dagster(_STATUS, backfill=answer["backfillId"])
        return str(told["partitionBackfillOrError"]["status"])

    built.wait_for(lambda: status() not in ("REQUESTED", "CANCELING", "FAILING"), 600)
    return status()


def outlive_the_bucket(built: Cluster, seen: Outcome) -> None:
    """Ask the server on the third machine before, during and after an outage of the bucket."""
    built.wait_for(lambda: built.get(_EXPORT).status_code == 200)

    def ask() -> list[tuple[int, bytes]]:
        answers = [built.get(path) for path in (_TIME, _EXPORT, "/ready")]
        return [(answer.status_code, answer.content[:10_000_000]) for answer in answers[:2]] + [
            (answers[2].status_code, b"")
        ]

    server = built.machines[2].services["strata-serve"]
    seen.answers["before"] = ask()
    built.weed.stop()
    built.wait_for(lambda: "opening the newest snapshot failed" in server.logged())
    seen.answers["away"] = ask()
    built.weed.start()
    seen.answers["after"] = ask()


def test_a_run_whose_process_was_killed_is_given_up_as_soon_as_somebody_looks(
    outcome: Outcome,
) -> None:
    assert "Detected run worker status" in outcome.process_killed


def test_a_run_whose_machine_is_gone_is_given_up_after_its_longest_time(outcome: Outcome) -> None:
    assert f"Exceeded maximum runtime of {MOST_SECONDS} seconds" in outcome.machine_killed


def test_everything_is_loaded_and_published_in_the_end(outcome: Outcome) -> None:
    assert '"complete_until": 650' in outcome.status
    assert outcome.unfinished == []


def test_a_damaged_segment_is_refused_and_holds_back_no_other(outcome: Outcome) -> None:
    assert '"quarantined": [\n' in outcome.status
    assert "651-660" in outcome.status


def test_a_backfill_succeeds(outcome: Outcome) -> None:
    assert outcome.backfill == "COMPLETED_SUCCESS"


def test_a_worker_that_is_stopped_finishes_its_run(outcome: Outcome) -> None:
    assert outcome.finished_by_stopped_worker == "SUCCESS"


def test_a_server_answers_while_the_bucket_is_away_and_follows_it_when_it_is_back(
    outcome: Outcome,
) -> None:
    assert [status for status, _ in outcome.answers["before"]] == [200, 200, 200]
    assert outcome.answers["away"] == outcome.answers["before"]
    assert outcome.answers["after"] == outcome.answers["before"]
    assert outcome.followed


def test_warehouse_and_archive_are_verified(outcome: Outcome) -> None:
    assert outcome.verified[0] == 0, outcome.verified[1]


def test_the_archive_is_that_of_one_machine_to_the_byte(
    outcome: Outcome, segments: list[Path], tmp_path: Path
) -> None:
    # For the damaged segment it leaves with 1.
    wanted = archive_of_one_machine(segments[0].parent, tmp_path, code=1)

    assert len([name for name in wanted if name.endswith(".zip")]) == 65 * len(HISTORY_TABLES)
    assert without_lake(outcome.archive) == without_lake(wanted)


def test_nobody_met_a_lock(outcome: Outcome) -> None:
    logged = (outcome.database_log + outcome.dagster_log).lower()
    assert [words for words in LOCKS if words in logged] == []
    assert "postgres" in logged
