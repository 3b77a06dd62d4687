"""Old runs go with their logs; what they made stays materialized."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqlEventLogStorage
from sqlalchemy import text

from pipelines.instance import open_instance
from pipelines.jobs import complete
from pipelines.old_runs import NEWEST_KEPT, remove_old_runs
from pipelines.partitions import SEGMENTS, range_tags
from pipelines.settings import Settings
from pipelines.site.site import Site
from tests.cluster.servers_kit import Database, postgres_server
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


def files_of(run_id: str, instance: dg.DagsterInstance) -> list[Path]:
    """Everything below Dagster's folder that is named by a run."""
    home = Path(instance.root_directory)
    return [path for path in home.rglob("*") if run_id in path.name]


def count(instance: dg.DagsterInstance, table: str, where: str = "true") -> int:
    """Rows of a table of the log of all runs."""
    log = instance.event_log_storage
    assert isinstance(log, SqlEventLogStorage)
    with log.index_connection() as connection:
        found = connection.execute(text(f"select count(*) from {table} where {where}"))
        return int(found.scalar_one())


@pytest.fixture(scope="module")
def databases() -> Iterator[Callable[[], str]]:
    """Makes addresses of empty databases of a PostgreSQL, which is started for the first."""
    with ExitStack() as stack:
        servers: list[Database] = []

        def make() -> str:
            if not servers:
                servers.append(stack.enter_context(postgres_server()))
            (server,), name = servers, f"dagster_{uuid4().hex}"
            server.sql(f"create database {name}")
            return f"postgresql+psycopg2://postgres@/{name}?host={server.folder}&port={server.port}"

        yield make


@pytest.fixture(params=["sqlite", "postgres"])
def instance(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    databases: Callable[[], str],
) -> Iterator[dg.DagsterInstance]:
    """An instance on either storage."""
    home = tmp_path / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "1000")
    if request.param == "postgres":
        home.mkdir()
        storage = {"postgres": {"postgres_url": databases()}}
        settings = {"telemetry": {"enabled": False}, "storage": storage}
        (home / "dagster.yaml").write_text(json.dumps(settings))
    with open_instance(home) as opened:
        yield opened


in_sqlite = pytest.mark.parametrize("instance", ["sqlite"], indirect=True)
"""Of tests of what does not differ with the storage: the others are of what is removed."""


def test_a_run_that_ended_long_ago_goes_and_its_partitions_stay_materialized(
    instance: dg.DagsterInstance,
) -> None:
    old = run(instance, [0, 1])
    assert files_of(old, instance)

    assert remove_old_runs(instance, later(), newest_kept=0) == 1

    assert runs(instance) == []
    assert files_of(old, instance) == []
    assert instance.get_materialized_partitions(TABLE) == set(KEYS[:2])
    records = instance.fetch_materializations(TABLE, limit=10).records
    assert {record.partition_key for record in records} == set(KEYS[:2])
    assert instance.get_latest_materialization_event(WHOLE) is not None
    assert count(instance, "event_logs", "dagster_event_type like 'ASSET_CHECK%'") == 0
    assert count(instance, "asset_check_executions") == 1


@in_sqlite
def test_what_was_made_again_is_kept_once(instance: dg.DagsterInstance) -> None:
    run(instance, [0, 1, 2])
    again = run(instance, [1, 2, 3])
    run(instance, [3])

    assert remove_old_runs(instance, later(), newest_kept=0) == 3

    records = instance.fetch_materializations(TABLE, limit=10).records
    assert sorted(str(record.partition_key) for record in records) == KEYS
    by_run = {record.partition_key: record.run_id for record in records}
    assert by_run[KEYS[2]] == again
    assert len(instance.fetch_materializations(WHOLE, limit=10).records) == 1
    events = count(instance, "event_logs", "dagster_event_type = 'ASSET_MATERIALIZATION'")
    assert count(instance, "asset_event_tags") == events == 5
    assert count(instance, "asset_check_executions") == 1


@in_sqlite
def test_new_runs_work_on_and_take_no_id_that_was_given_before(
    instance: dg.DagsterInstance,
) -> None:
    run(instance, [0])
    before = instance.event_log_storage.get_maximum_record_id() or 0
    remove_old_runs(instance, later(), newest_kept=0)

    run(instance, [0, 1, 2, 3])

    assert instance.get_materialized_partitions(TABLE) == set(KEYS)
    newest = instance.fetch_materializations(TABLE, limit=len(KEYS)).records
    assert min(record.storage_id for record in newest) > before


@in_sqlite
def test_recent_runs_the_newest_runs_and_unfinished_runs_stay(
    instance: dg.DagsterInstance,
) -> None:
    failed = run(instance, [0], fail="yes")
    first, second = run(instance, [1]), run(instance, [2])
    instance.add_run(dg.DagsterRun("load", status=dg.DagsterRunStatus.STARTED))
    (started,) = set(runs(instance)) - {failed, first, second}

    assert remove_old_runs(instance, datetime.now(UTC)) == 0
    assert remove_old_runs(instance, later()) == 0
    assert remove_old_runs(instance, later(), newest_kept=2) == 2
    assert runs(instance) == [second, started]
    assert remove_old_runs(instance, later(), newest_kept=0) == 1
    assert runs(instance) == [started]
    assert instance.get_materialized_partitions(TABLE) == set(KEYS[:3])


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
    remove_old_runs(instance, datetime.now(UTC) + timedelta(days=8), newest_kept=0)
"""


def test_a_removal_that_is_killed_half_way_is_done_again(instance: dg.DagsterInstance) -> None:
    """After its events went, and the next one after its file went."""
    old = run(instance, [0, 1, 2, 3])

    for step in ("os.remove", "shutil.rmtree"):
        killed = subprocess.run(
            [sys.executable, "-c", _REMOVE, str(instance.root_directory), step], check=False
        )
        assert killed.returncode == -signal.SIGKILL
        assert runs(instance) == [old]
        assert instance.get_materialized_partitions(TABLE) == set(KEYS)
        assert instance.all_logs(old) is not None  # its page can be opened meanwhile

    assert remove_old_runs(instance, later(), newest_kept=0) == 1
    assert files_of(old, instance) == []
    assert instance.get_materialized_partitions(TABLE) == set(KEYS)


@in_sqlite
def test_the_job_does_so(instance: dg.DagsterInstance, settings: Settings) -> None:
    old = run(instance, [0])
    with instance.run_storage.connect() as connection:  # type: ignore[attr-defined]
        connection.execute(text("update runs set update_timestamp = '2020-01-01 00:00:00'"))
    for _ in range(NEWEST_KEPT):
        instance.add_run(dg.DagsterRun("load", status=dg.DagsterRunStatus.SUCCESS))

    result = complete.execute_in_process(instance=instance, resources={"site": Site(settings)})

    assert result.success
    assert instance.get_run_by_id(old) is None
    assert instance.get_materialized_partitions(TABLE) == {KEYS[0]}
