"""Whole runs through a real Dagster instance: segments in, published ZIPs out."""

from __future__ import annotations

import hashlib
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.assembly import definitions
from pipelines.instance import COMMAND_LINE_TAG, open_instance
from pipelines.jobs import load_and_publish
from pipelines.run_requests import BATCH_TAG, QUIET
from pipelines.running import FinishedRun, run_everything
from pipelines.settings import Settings
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from pipelines.step_failures import step_failures
from tests.pipelines.kit import blocks, make_segment, one_key_twice, site_settings
from tests.segments_kit import KIT_CHAIN, entry_bytes
from transforms.errors import BusyError
from transforms.tables.registry import HISTORY_TABLES


@dataclass
class History:
    """A site with its Dagster home, and what happened in the first `run` over it."""

    settings: Settings
    home: Path
    segments: dict[int, Path]
    runs: list[FinishedRun]
    dead_run: str = ""

    def run(self) -> list[FinishedRun]:
        finished: list[FinishedRun] = []
        site = Site(self.settings)
        run_everything(site, site_status(site), self.home, finished.append)
        return finished

    def published(self) -> set[str]:
        """The names of all ZIPs in the archive."""
        return {path.name for path in Path(self.settings.archive).rglob("*.zip")}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Segments 0 to 3 in batches of three: 1 lacks a table, 3 has a primary key twice.

    In the Dagster home lies a run whose process was killed.
    """
    folder = tmp_path_factory.mktemp("history")
    settings = site_settings(folder)
    kits: dict[int, dict[str, Any]] = {
        0: {},
        1: {"omit": ["trades"]},
        2: {},
        3: {"tables": one_key_twice(3)},
    }
    segments = {number: make_segment(settings, number, **kit) for number, kit in kits.items()}
    made = History(settings, folder / "dagster_home", segments, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "put back after the tests")
        with open_instance(made.home) as instance:
            tags = {**COMMAND_LINE_TAG, BATCH_TAG: "1-10"}
            dead = dg.DagsterRun("load", status=dg.DagsterRunStatus.STARTED, tags=tags)
            made.dead_run = instance.add_run(dead).run_id
        made.runs = made.run()
        yield made


def test_the_tables_of_good_segments_are_published_with_the_bytes_of_their_source(
    history: History,
) -> None:
    for number in (0, 2):
        for table in HISTORY_TABLES:
            name = f"{KIT_CHAIN}-{table}-{blocks(number)[0]}.zip"
            path = Path(history.settings.archive, KIT_CHAIN, table, name)
            with zipfile.ZipFile(path) as archive:
                (member,) = archive.namelist()
                assert archive.read(member) == entry_bytes(history.segments[number], table)


def test_a_segment_that_cannot_be_loaded_takes_no_other_down_and_is_named(
    history: History,
) -> None:
    first, second, third = history.runs[:3]

    assert (str(first.batch), str(second.batch), str(third.batch)) == ("1-30", "1-10", "21-30")
    assert f"{KIT_CHAIN}-1-11-20.zip" in first.failure
    assert "trades" in first.failure
    assert (second.failure, third.failure) == ("", "")
    assert not any("-11-20.zip" in name for name in history.published())


def test_a_segment_with_one_key_twice_is_refused_as_well(history: History) -> None:
    reason = "segment 31-40: orders has several rows for vega_time 2023-01-01 00:00:00+00"
    failed = history.runs[3]

    assert str(failed.batch) == "31-40"
    assert reason in failed.failure
    assert not any("-31-40.zip" in name for name in history.published())
    status = site_status(Site(history.settings))
    assert (status.unpublished, status.to_do) == ((), ())
    assert status.refused[f"{KIT_CHAIN}-1-31-40.zip"].startswith(reason)


def test_dagster_shows_each_partition_of_each_asset(history: History) -> None:
    good = {segment.key for segment in blocks(0, 2)}
    with open_instance(history.home) as instance:
        for table in HISTORY_TABLES:
            exported = instance.get_materialized_partitions(dg.AssetKey(["archive", table]))
            loaded = instance.get_materialized_partitions(dg.AssetKey(["warehouse", table]))
            assert exported == loaded == good


def test_each_partition_is_shown_with_its_own_facts(history: History) -> None:
    with open_instance(history.home) as instance:
        records = instance.fetch_materializations(dg.AssetKey(["archive", "blocks"]), limit=10)
    shown = {}
    for record in records.records:
        assert record.asset_materialization is not None
        shown[record.partition_key] = record.asset_materialization.metadata
    for segment in blocks(0, 2):
        metadata = shown[segment.key]
        (path,) = Path(history.settings.archive).rglob(f"{KIT_CHAIN}-blocks-{segment}.zip")
        assert metadata["dagster/row_count"].value == 10
        assert metadata["bytes"].value == path.stat().st_size
        assert metadata["sha256"].value == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_runs_of_a_killed_command_line_are_ended_by_the_next_one(history: History) -> None:
    with open_instance(history.home) as instance:
        dead = instance.get_run_by_id(history.dead_run)
    assert dead is not None
    assert dead.status is dg.DagsterRunStatus.CANCELED


def test_a_refused_file_is_left_alone_until_a_corrected_one_comes(history: History) -> None:
    before = site_status(Site(history.settings))
    make_segment(history.settings, 1)
    make_segment(history.settings, 3)
    after = site_status(Site(history.settings))

    assert before.to_do == ()
    assert after.to_do == blocks(1, 3)


def test_what_is_published_stays_untouched_by_further_runs(history: History) -> None:
    for number in (1, 3):
        make_segment(history.settings, number)
    paths = [path for path in Path(history.settings.archive).rglob("*.zip*") if path.is_file()]
    times = {path: path.stat().st_mtime_ns for path in paths}

    runs = history.run()

    assert [str(run.batch) for run in runs if not run.failure] == ["11-20", "31-40"]
    assert {path: path.stat().st_mtime_ns for path in paths} == times
    for span in ("11-20", "31-40"):
        assert any(f"-{span}.zip" in name for name in history.published())


def test_a_failing_database_of_dagster_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    (home / "history" / "runs.db").mkdir(parents=True)  # where a file would be

    with pytest.raises(OSError, match="Dagster's database says") as failed:
        run_everything(site, site_status(site), home, print)
    assert failed.value.filename == str(home)


@pytest.mark.parametrize(
    ("name", "lock"), [("event_log.db", "immediate"), ("runs.db", "exclusive")]
)
def test_a_lock_of_another_process_on_dagsters_database_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lock: str
) -> None:
    home = tmp_path / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setattr("pipelines.event_log.SQLITE_BUSY_TIMEOUT_SECONDS", 0.1)
    make_segment(site.settings, 0)
    with open_instance(home):
        pass

    with closing(sqlite3.connect(home / "history" / name, isolation_level=None)) as con:
        con.execute(f"begin {lock}")
        with pytest.raises(BusyError, match=f"holds a lock on Dagster's database in {home}"):
            run_everything(site, site_status(site), home, print)
    run_everything(site, site_status(site), home, print)


def test_a_run_over_a_partition_that_is_no_segment_says_what_to_do(
    settings: Settings, site: Site, instance: dg.DagsterInstance
) -> None:
    instance.add_dynamic_partitions("segments", ["my-test"])
    job = definitions(settings).resolve_job_def(load_and_publish.name)

    result = job.execute_in_process(
        run_config=QUIET,
        instance=instance,
        tags={"dagster/partition": "my-test"},
        resources={"site": site},
        raise_on_error=False,
    )

    reasons = dict(step_failures(result.all_events))
    assert [*reasons] == ["the partition 'my-test' is no segment: delete it in Dagster"]
