"""A machine without room takes no run: with real workers, PostgreSQL and Valkey."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from celery.exceptions import DuplicateTaskNameWarning
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin

from pipelines.batches import Batch
from pipelines.instance import add_partitions
from pipelines.jobs import load_and_publish
from pipelines.machine_name import MACHINE_TAG, machine_name
from pipelines.run_requests import QUIET, batch_tags
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.cluster.machines_kit import ROOT, Machine, blocks, machines, wait_for
from tests.cluster.servers_kit import Database, postgres_server, valkey_server
from tests.pipelines.kit import blocks as segments
from tests.pipelines.kit import make_segment, site_settings

RUNS = 2
ANY_DISK = 10**12
"""More MB than any disk has."""


@pytest.mark.cluster
def test_what_a_full_machine_does_not_begin_is_done_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(site_settings(tmp_path))
    for number in range(RUNS):
        make_segment(site.settings, number)
    with (
        _two_machines(tmp_path, site, monkeypatch) as (full, spare, home),
        dg.DagsterInstance.from_config(str(home)) as instance,
    ):
        start(full)
        ids = launch(instance)
        wait_for(lambda: is_looked_at(instance, ids[0]), full.logged)
        waiting = {run.run_id for run in instance.get_runs() if not run.is_finished}
        start(spare)
        wait_for(lambda: is_done(instance, ids), lambda: full.logged() + spare.logged())
        runs = [instance.get_run_by_id(run) for run in ids]
        logs = [told(instance, run) for run in ids]

    assert waiting == {*ids}
    assert [run.status.value for run in runs if run] == ["SUCCESS"] * RUNS
    assert {run.tags[MACHINE_TAG] for run in runs if run} == {machine_name()}
    put_back = [log for log in logs if "Put back" in log]
    assert all(f"{machine_name()} cannot work: " in log for log in put_back)
    assert all(f"a run begins with {ANY_DISK:,}" in log for log in put_back)
    assert all(log.count("Started process for run") == 1 for log in logs)
    assert f"takes no run: {site.settings.warehouse} has" in full.logged()
    assert not full.place("/var/lib/strata/cache/current.duckdb").exists()
    assert spare.place("/var/lib/strata/cache/current.duckdb").exists()
    assert len(site_status(site).published) == RUNS


@contextmanager
def _two_machines(
    folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Machine, Machine, Path]]:
    """Two machines by the manual, one of them without room, and Dagster's folder of the first."""
    _, setup, *_ = blocks("Several machines")
    with postgres_server() as database, machines(folder, "full", "spare") as (full, spare):
        database.sql("create user strata password 'change-me'")
        database.sql("create database dagster owner strata")
        for machine in (full, spare):
            machine.run(setup.commands)
        settings = full.place("/etc/redis.conf")
        settings.write_text("requirepass change-me\n")
        with valkey_server(folder / "valkey", settings) as broker:
            for machine in (full, spare):
                variables = _variables(machine, site, database, broker.port)
                machine.configure(**variables)
            full.configure(STRATA_FREE_MB=str(ANY_DISK))
            for name, value in variables.items():
                if name.startswith("STRATA_DAGSTER"):
                    monkeypatch.setenv(name, value)
            yield full, spare, full.place("/var/lib/strata/dagster")


def _variables(machine: Machine, site: Site, database: Database, broker: int) -> dict[str, str]:
    postgres = f"postgresql+psycopg2://strata:change-me@127.0.0.1:{database.port}/dagster"
    return {
        "STRATA_DAGSTER_POSTGRES_URL": postgres,
        "STRATA_DAGSTER_BROKER_URL": f"redis://:change-me@127.0.0.1:{broker}/0",
        "STRATA_SOURCE": site.settings.source,
        "STRATA_WAREHOUSE": site.settings.warehouse,
        "STRATA_ARCHIVE": site.settings.archive,
        "STRATA_CACHE": str(machine.place("/var/lib/strata/cache")),
        "STRATA_LAKE": "0",
    }


def start(machine: Machine) -> None:
    """Start the worker of a machine; returns when it takes runs."""
    *_, workers, _ = blocks("Several machines")
    machine.run(workers.commands)
    worker = machine.services["strata-worker"]
    wait_for(lambda: " ready." in worker.logged(), machine.logged)


def launch(instance: dg.DagsterInstance) -> list[str]:
    """Launch a run for each segment, as Dagster's daemon does; returns their ids."""
    pointer = ModuleCodePointer("pipelines.definitions", "defs", str(ROOT))
    python = str(ROOT / ".venv" / "bin" / "python")
    code = RepositoryPythonOrigin(python, pointer, entry_point=["dagster"])
    ids = []
    add_partitions(instance, segments(*range(RUNS)))
    for number in range(RUNS):
        run = dg.DagsterRun(
            job_name=load_and_publish.name,
            run_config=QUIET,
            tags=batch_tags(Batch(segments(number))),
            job_code_origin=JobPythonOrigin(load_and_publish.name, code),
        )
        instance.add_run(run)
        instance.report_dagster_event(
            dg.DagsterEvent(dg.DagsterEventType.RUN_STARTING.value, run.job_name), run.run_id
        )
        # Dagster defines its task anew for each run, which Celery remarks upon.
        with warnings.catch_warnings(action="ignore", category=DuplicateTaskNameWarning):
            instance.run_launcher.launch_run(LaunchRunContext(run, workspace=None))
        ids.append(run.run_id)
    return ids


def told(instance: dg.DagsterInstance, run: str) -> str:
    """All messages of a run."""
    return "\n".join(entry.message for entry in instance.all_logs(run))


def is_looked_at(instance: dg.DagsterInstance, run: str) -> bool:
    """Whether a worker has put a run back, or begun it."""
    return any(words in told(instance, run) for words in ("Put back", "Started process"))


def is_done(instance: dg.DagsterInstance, runs: list[str]) -> bool:
    """Whether all of these have ended."""
    found = [instance.get_run_by_id(run) for run in runs]
    return all(run is not None and run.is_finished for run in found)
