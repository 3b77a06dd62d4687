"""Runs of several fates, launched as Jobs, looked after and ended by Dagster itself.

Arguments: the folder of `dagster.yaml` and a kubeconfig for each cluster. Prints a line for each
cluster: the status of each run, and what Dagster wrote down of it.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster._daemon.monitoring.run_monitoring import execute_run_monitoring_iteration

_CODE = RepositoryPythonOrigin(
    sys.executable, ModuleCodePointer("pipelines.definitions", "defs"), None, ("dagster",), None
)


def main(folder: Path, *kubeconfigs: Path) -> None:
    """Monitor runs on one cluster after the other: importing Dagster takes longer than they do."""
    for kubeconfig in kubeconfigs:
        print(json.dumps(_monitored(folder, kubeconfig)))


def _monitored(folder: Path, kubeconfig: Path) -> dict[str, dict[str, Any]]:
    """Launch a run of each fate, look at all of them twice, and end those that are left."""
    config = yaml.safe_load((folder / "dagster.yaml").read_text())
    reached = {"load_incluster_config": False, "kubeconfig_file": str(kubeconfig)}
    config["run_launcher"]["config"] |= reached
    kept = {name: config[name] for name in ("run_launcher", "run_monitoring", "telemetry")}
    with tempfile.TemporaryDirectory() as home:
        Path(home, "dagster.yaml").write_text(yaml.safe_dump(kept))
        with dg.DagsterInstance.from_config(home) as instance:
            _launch(instance)
            with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as workspace:
                problems = [
                    *execute_run_monitoring_iteration(workspace, logging.getLogger()),
                    *execute_run_monitoring_iteration(workspace, logging.getLogger()),
                ]
            assert not any(problems), problems
            left = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
            ended = {run.job_name: instance.run_launcher.terminate(run.run_id) for run in left}
            return {
                run.job_name: {
                    "status": run.status.value,
                    "ended": ended.get(run.job_name),
                    "log": "\n".join(
                        event.message for event in instance.all_logs(run.run_id) if event.message
                    ),
                }
                for run in instance.get_runs()
            }


def _launch(instance: dg.DagsterInstance) -> None:
    for fate in ("works", "fails", "vanishes", "hangs"):
        run = dg.DagsterRun(job_name=fate, job_code_origin=JobPythonOrigin(fate, _CODE))
        instance.add_run(run)
        instance.run_launcher.launch_run(LaunchRunContext(run, workspace=None))
        # The one that hangs was to start long ago, and has not.
        begin = DagsterEventType.RUN_STARTING if fate == "hangs" else DagsterEventType.RUN_START
        past = time.time() - 10_000 if fate == "hangs" else None
        instance.report_dagster_event(DagsterEvent(begin.value, fate), run.run_id, timestamp=past)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
