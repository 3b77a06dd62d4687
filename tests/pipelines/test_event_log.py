"""The batched event log says what Dagster's own does, faster and in less space."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import dagster as dg
import pytest

from pipelines.event_log import BatchedSqliteEventLogStorage
from pipelines.partitions import SEGMENTS, range_tags
from tests.waiting import wait_until
from transforms.block_range import BlockRange

SEGMENT_LIST = [BlockRange(first, first + 99) for first in range(1, 401, 100)]
KEYS = [blocks.key for blocks in SEGMENT_LIST]
# What differs between any two runs: ids and times inside the events.
VOLATILE = ("event", "timestamp", "run_id", "create_timestamp", "last_materialization_timestamp")

STOCK = """
event_log_storage:
  module: dagster._core.storage.event_log
  class: ConsolidatedSqliteEventLogStorage
  config:
    base_dir:
      env: STRATA_TEST_HISTORY
"""
OURS = """
event_log_storage:
  module: pipelines.event_log
  class: BatchedSqliteEventLogStorage
  config:
    home:
      env: DAGSTER_HOME
"""


@dg.multi_asset(
    specs=[dg.AssetSpec(name) for name in ("one", "two")],
    check_specs=[dg.AssetCheckSpec("fine", asset="one")],
    partitions_def=SEGMENTS,
)
def tables(
    context: dg.AssetExecutionContext,
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    if "fail" in context.run.tags:
        raise dg.Failure("it failed", allow_retries=False)
    for name in ("one", "two"):
        for key in context.partition_keys:
            context.add_asset_metadata({"rows": int(key[:9])}, name, key)
        yield dg.MaterializeResult[None](asset_key=name, tags={"colour": "blue"})
    yield dg.AssetCheckResult(check_name="fine", asset_key="one", passed=True)


DEFINITIONS = dg.Definitions(assets=[tables], executor=dg.in_process_executor)


def materialize(
    home: Path, config: str, keys: Sequence[str], monkeypatch: pytest.MonkeyPatch, **tags: str
) -> str:
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n" + config)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("STRATA_TEST_HISTORY", str(home / "history"))
    monkeypatch.delenv("DAGSTER_EVENT_BATCH_SIZE", raising=False)
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("segments", KEYS)
        result = DEFINITIONS.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            tags={
                **range_tags(BlockRange.from_key(keys[0]), BlockRange.from_key(keys[-1])),
                **tags,
            },
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )
        assert result.success is not bool(tags)
        return result.run_id


def rows(path: Path, table: str) -> list[dict[str, object]]:
    with sqlite3.connect(path) as con:
        con.row_factory = sqlite3.Row
        found = [dict(row) for row in con.execute(f"select * from {table} order by id")]
    con.close()
    kept = [{k: v for k, v in row.items() if k not in VOLATILE} for row in found]
    return sorted(
        ({k: v for k, v in row.items() if k != "id"} for row in kept),
        key=lambda row: [str(value) for value in row.values()],
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """The homes `stock` and `ours` with a run over all partitions, by its id."""
    root = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        return {
            root / name: materialize(root / name, config, KEYS, patch)
            for name, config in (("stock", STOCK), ("ours", OURS))
        }


def test_the_log_has_the_rows_of_the_stock_storage_but_for_what_was_planned(
    both: dict[Path, str],
) -> None:
    logs = {home.name: home / "history" / "event_log.db" for home in both}
    planned = "ASSET_MATERIALIZATION_PLANNED"
    stock = [
        row for row in rows(logs["stock"], "event_logs") if row["dagster_event_type"] != planned
    ]

    assert rows(logs["ours"], "event_logs") == stock
    for table in ("asset_event_tags", "asset_check_executions"):
        ours, theirs = (len(rows(logs[name], table)) for name in ("ours", "stock"))
        assert ours == theirs > 0


def test_the_file_has_the_tables_and_the_revision_of_the_stock_storage_and_large_pages(
    both: dict[Path, str],
) -> None:
    def contents(home: Path) -> tuple[object, ...]:
        with closing(sqlite3.connect(home / "history" / "event_log.db")) as con:
            schema = con.execute("select type, name, sql from sqlite_master order by 1, 2")
            revision = con.execute("select version_num from alembic_version")
            mode = con.execute("pragma journal_mode")
            size = con.execute("pragma page_size")
            return tuple(cursor.fetchall() for cursor in (schema, revision, mode, size))

    contents_by_home = {home.name: contents(home) for home in both}
    assert contents_by_home["ours"][:-1] == contents_by_home["stock"][:-1]
    assert contents_by_home["ours"][-1] == [(16384,)]


def test_a_partition_that_failed_is_known_until_it_is_materialized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfinished() -> set[str]:
        with dg.DagsterInstance.get() as instance:
            log = instance.event_log_storage
            return set(
                log.get_latest_asset_partition_materialization_attempts_without_materializations(
                    dg.AssetKey("one")
                )
            )

    materialize(tmp_path / "home", OURS, KEYS[:2], monkeypatch, fail="yes")
    assert unfinished() == set(KEYS[:2])
    materialize(tmp_path / "home", OURS, KEYS[:1], monkeypatch)
    assert unfinished() == {KEYS[1]}


@pytest.mark.parametrize("order", [(STOCK, OURS), (OURS, STOCK)], ids=["stock-ours", "ours-stock"])
def test_either_storage_continues_the_log_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]
) -> None:
    for config, keys in zip(order, (KEYS[:2], KEYS[2:]), strict=True):
        materialize(tmp_path / "home", config, keys, monkeypatch)
    with dg.DagsterInstance.get() as instance:
        done = instance.get_materialized_partitions(dg.AssetKey("two"))
        shown = instance.get_latest_materialization_event(dg.AssetKey("two"))
        stored = instance.fetch_materializations(dg.AssetKey("two"), limit=1).records
    assert done == set(KEYS)
    assert shown == stored[0].event_log_entry


_MAKE = """
import os, signal, sys
from pipelines.event_log import BatchedSqliteEventLogStorage

def kill(event, arguments):
    if event == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
BatchedSqliteEventLogStorage(sys.argv[1])
"""


@pytest.mark.parametrize("step", ["sqlite3.connect", "os.rename"])
def test_a_log_whose_maker_was_killed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = tmp_path / "home" / "history"
    killed = subprocess.run([sys.executable, "-c", _MAKE, str(folder), step], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (folder / "event_log.db").exists()
    materialize(tmp_path / "home", OURS, KEYS, monkeypatch)
    with dg.DagsterInstance.get() as instance:
        assert instance.get_materialized_partitions(dg.AssetKey("two")) == set(KEYS)
    assert not [*folder.glob("run-*")]


def test_each_partition_keeps_its_own_metadata(
    both: dict[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (ours,) = (home for home in both if home.name == "ours")
    monkeypatch.setenv("DAGSTER_HOME", str(ours))
    with dg.DagsterInstance.get() as instance:
        records = instance.fetch_materializations(dg.AssetKey("one"), limit=100).records
    rows = {
        record.partition_key: record.asset_materialization.metadata["rows"].value
        for record in records
        if record.asset_materialization is not None
    }
    assert rows == {key: int(key[:9]) for key in KEYS}


def test_who_watches_a_run_is_told_while_it_goes_on(tmp_path: Path) -> None:
    """As the web interface does, which has the log open in another process."""
    writer, watcher = (BatchedSqliteEventLogStorage(str(tmp_path)) for _ in range(2))
    told: list[str] = []
    assert watcher.get_logs_for_run("a run") == []
    watch = cast("Callable[..., None]", watcher.watch)
    watch("a run", None, lambda entry, _cursor: told.append(entry.user_message))

    for message in ("one", "two"):
        entry = cast("Callable[..., dg.EventLogEntry]", dg.EventLogEntry)
        writer.store_event(entry(None, 20, message, "a run", time.time(), None, "load"))
        wait_until(partial(told.__contains__, message))

    assert told == ["one", "two"]
    for storage in (writer, watcher):
        storage.dispose()
