"""Old runs go with their logs; what they made stays materialized."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from pipelines.jobs import forget_runs
from pipelines.old_runs import remove_old_runs
from pipelines.partitions import SEGMENTS, range_tags
from pipelines.settings import Settings
from pipelines.site.site import Site
from tests.pipelines.kit import blocks

SEGMENT_LIST = blocks(0, 1, 2, 3)
KEYS = [segment.key for segment in SEGMENT_LIST]
DAYS = 7
TABLE, WHOLE = dg.AssetKey("table"), dg.AssetKey("whole")


@dg.multi_asset(
    specs=[dg.AssetSpec(TABLE)],
    check_specs=[dg.AssetCheckSpec("fine", asset=TABLE)],
    partitions_def=SEGMENTS,
)
def table(
    context: dg.AssetExecutionContext,
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    for key in context.partition_keys:
        context.add_asset_metadata({"rows": int(key[:9])}, TABLE, key)
    yield dg.MaterializeResult[None](asset_key=TABLE)
    yield dg.AssetCheckResult(check_name="fine", asset_key=TABLE, passed=True)


@dg.asset(deps=[dg.AssetDep(TABLE, partition_mapping=dg.LastPartitionMapping())])
def whole(context: dg.AssetExecutionContext) -> None:
    print("said by the run")
    if "fail" in context.run.tags:
        raise dg.Failure("it failed", allow_retries=False)


JOB = dg.Definitions(
    assets=[table, whole], executor=dg.in_process_executor
).resolve_implicit_global_asset_job_def()


def run(instance: dg.DagsterInstance, numbers: Sequence[int], **tags: str) -> str:
    """Materialize some segments in one run; returns its id."""
    first, last = SEGMENT_LIST[numbers[0]], SEGMENT_LIST[numbers[-1]]
    instance.add_dynamic_partitions("segments", KEYS)
    return JOB.execute_in_process(
        instance=instance,
        tags={**range_tags(first, last), **tags},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    ).run_id


def later() -> datetime:
    """When every run of a test is old."""
    return datetime.now(UTC) + timedelta(days=DAYS, minutes=1)


def runs(instance: dg.DagsterInstance) -> list[str]:
    """The runs that Dagster knows, in the order in which they began."""
    return [run.run_id for run in reversed(instance.get_runs())]


def files_of(run_id: str, home: Path) -> list[Path]:
    """Everything below Dagster's folder that is named by a run."""
    return [path for path in home.rglob("*") if run_id in path.name]


def count(home: Path, table: str, where: str = "true") -> int:
    """Rows of a table of the index of all runs."""
    with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as con:
        return int(con.execute(f"select count(*) from {table} where {where}").fetchone()[0])


@pytest.fixture
def home(tmp_path: Path, home_instance: dg.DagsterInstance) -> Path:
    """The folder of `home_instance`."""
    return Path(home_instance.root_directory)


def test_a_run_that_ended_long_ago_goes_and_its_partitions_stay_materialized(
    home_instance: dg.DagsterInstance, home: Path
) -> None:
    old = run(home_instance, [0, 1])
    assert files_of(old, home)

    assert remove_old_runs(home_instance, DAYS, later(), newest_kept=0) == 1

    assert runs(home_instance) == []
    assert files_of(old, home) == []
    assert home_instance.get_materialized_partitions(TABLE) == set(KEYS[:2])
    records = home_instance.fetch_materializations(TABLE, limit=10).records
    assert {record.partition_key for record in records} == set(KEYS[:2])
    assert home_instance.get_latest_materialization_event(WHOLE) is not None
    assert count(home, "event_logs", "dagster_event_type like 'ASSET_CHECK%'") == 0
    assert count(home, "asset_check_executions") == 1


def test_what_was_made_again_is_kept_once(home_instance: dg.DagsterInstance, home: Path) -> None:
    run(home_instance, [0, 1, 2])
    again = run(home_instance, [1, 2, 3])
    run(home_instance, [3])

    assert remove_old_runs(home_instance, DAYS, later(), newest_kept=0) == 3

    records = home_instance.fetch_materializations(TABLE, limit=10).records
    assert sorted(str(record.partition_key) for record in records) == KEYS
    by_run = {record.partition_key: record.run_id for record in records}
    assert by_run[KEYS[2]] == again
    assert len(home_instance.fetch_materializations(WHOLE, limit=10).records) == 1
    events = count(home, "event_logs", "dagster_event_type = 'ASSET_MATERIALIZATION'")
    assert count(home, "asset_event_tags") == events == 5
    assert count(home, "asset_check_executions") == 1


def test_new_runs_work_on_and_take_no_id_that_was_given_before(
    home_instance: dg.DagsterInstance,
) -> None:
    run(home_instance, [0])
    before = home_instance.event_log_storage.get_maximum_record_id() or 0
    remove_old_runs(home_instance, DAYS, later(), newest_kept=0)

    run(home_instance, [0, 1, 2, 3])

    assert home_instance.get_materialized_partitions(TABLE) == set(KEYS)
    newest = home_instance.fetch_materializations(TABLE, limit=len(KEYS)).records
    assert min(record.storage_id for record in newest) > before


def test_recent_runs_the_newest_runs_and_unfinished_runs_stay(
    home_instance: dg.DagsterInstance,
) -> None:
    failed = run(home_instance, [0], fail="yes")
    first, second = run(home_instance, [1]), run(home_instance, [2])
    home_instance.add_run(dg.DagsterRun("load", status=dg.DagsterRunStatus.STARTED))
    (started,) = set(runs(home_instance)) - {failed, first, second}

    assert remove_old_runs(home_instance, DAYS, datetime.now(UTC)) == 0
    assert remove_old_runs(home_instance, DAYS, later()) == 0
    assert remove_old_runs(home_instance, 0, later(), newest_kept=0) == 0
    assert remove_old_runs(home_instance, DAYS, later(), newest_kept=2) == 2
    assert runs(home_instance) == [second, started]
    assert remove_old_runs(home_instance, DAYS, later(), most=1, newest_kept=0) == 1
    assert runs(home_instance) == [started]
    assert home_instance.get_materialized_partitions(TABLE) == set(KEYS[:3])


_REMOVE = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pipelines.instance import open_instance
from pipelines.old_runs import remove_old_runs

def kill(event, _):
    if event == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

with open_instance(Path(sys.argv[1])) as instance:
    instance.get_runs()
    sys.addaudithook(kill)
    remove_old_runs(instance, 7, datetime.now(UTC) + timedelta(days=8), newest_kept=0)
"""


@pytest.mark.parametrize(
    "step",
    ["os.remove", "shutil.rmtree"],
    ids=["after its events", "after its file"],
)
def test_a_removal_that_is_killed_half_way_is_done_again(
    home_instance: dg.DagsterInstance, home: Path, step: str
) -> None:
    old = run(home_instance, [0, 1, 2, 3])

    killed = subprocess.run([sys.executable, "-c", _REMOVE, str(home), step], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert runs(home_instance) == [old]
    assert home_instance.get_materialized_partitions(TABLE) == set(KEYS)
    assert home_instance.all_logs(old) is not None  # its page can be opened meanwhile
    assert remove_old_runs(home_instance, DAYS, later(), newest_kept=0) == 1
    assert files_of(old, home) == []
    assert home_instance.get_materialized_partitions(TABLE) == set(KEYS)


def test_the_job_does_so_for_the_setting(
    home_instance: dg.DagsterInstance, settings: Settings
) -> None:
    old = run(home_instance, [0])
    with closing(sqlite3.connect(Path(home_instance.root_directory, "history", "runs.db"))) as con:
        con.execute("update runs set update_timestamp = '2020-01-01 00:00:00'")
        # So many newer ones that the old one is not among those that are always kept.
        con.executescript(
            "insert into runs (run_id, pipeline_name, status, run_body, create_timestamp, "
            "update_timestamp) with recursive n(i) as (select 1 union all select i + 1 from n "
            "where i < 100) select 'copy-' || i, pipeline_name, status, run_body, "
            "create_timestamp, current_timestamp from runs, n"
        )

    result = forget_runs.execute_in_process(
        instance=home_instance, resources={"site": Site(settings)}
    )

    assert result.success
    assert home_instance.get_run_by_id(old) is None
    assert home_instance.get_materialized_partitions(TABLE) == {KEYS[0]}
