"""The example files of `dagster_home` are read by the programs that they are for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.manifests_kit import check_manifests
from tests.cluster.servers_kit import Database, postgres_server

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "dagster_home"
INSTANCE = """
import json, sys
import dagster as dg
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    launcher = instance.run_launcher
    print(json.dumps({
        "storage": type(instance.event_log_storage).__name__,
        "dialect": instance.event_log_storage._engine.driver,
        "launcher": type(launcher).__name__,
        "broker": launcher.celery.connection().as_uri(),
        "monitoring": instance.run_monitoring_enabled,
        "longest": instance.run_monitoring_max_runtime_seconds,
        "resumed": instance.run_monitoring_max_resume_run_attempts,
        "runs": instance.get_concurrency_config().run_queue_config.max_concurrent_runs,
    }))
"""
WORKER = """
import json, sys
from dagster_celery.cli import get_validated_config
print(json.dumps(get_validated_config(sys.argv[1])))
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: nobody}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: nobody, user: {}}]
"""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with postgres_server() as running:
        running.sql("create user strata password 'change-me'")
        running.sql("create database dagster owner strata")
        yield running


def told(*command: str | Path, **variables: str) -> Any:
    """What a program of this environment prints as JSON."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_three_machines_have_postgresql_and_celery_and_no_run_is_resumed(
    database: Database,
) -> None:
    loaded = told(
        *("-c", INSTANCE, HOME / "three-machines"),
        STRATA_DAGSTER_POSTGRES_URL=(
            f"postgresql+psycopg2://strata:change-me@127.0.0.1:{database.port}/dagster"
        ),
        STRATA_DAGSTER_BROKER_URL="redis://:change-me@127.0.0.1:1/0",
    )

    assert loaded == {
        "storage": "PostgresEventLogStorage",
        "dialect": "psycopg2",
        "launcher": "CeleryRunLauncher",
        "broker": "redis://:**@127.0.0.1:1/0",
        "monitoring": True,
        "longest": 3600,
        "resumed": 0,
        "runs": 3,
    }


def test_what_dagster_forgets_is_the_same_everywhere() -> None:
    ours = yaml.safe_load((HOME / "dagster.yaml").read_text())
    for name in ("three-machines", "kubernetes"):
        other = yaml.safe_load((HOME / name / "dagster.yaml").read_text())
        assert {key: other[key] for key in ("retention", "telemetry", "nux")} == {
            key: ours[key] for key in ("retention", "telemetry", "nux")
        }


def test_the_worker_of_a_machine_takes_a_run_only_when_it_has_room_and_says_that_it_did() -> None:
    broker = "redis://:change-me@machine-1:6379/0"

    loaded = told(
        *("-c", WORKER, HOME / "three-machines" / "worker.yaml"), STRATA_DAGSTER_BROKER_URL=broker
    )

    assert (loaded["broker"], loaded["backend"]) == (broker, broker)
    assert loaded["config_source"] == {
        "worker_concurrency": 1,
        "worker_max_tasks_per_child": 1,
        "task_track_started": True,
        "worker_disable_prefetch": True,
    }


def test_on_kubernetes_a_run_is_a_job_that_is_never_begun_again(tmp_path: Path) -> None:
    packages = ROOT / ".venv" / "kubernetes"
    if not packages.exists():
        pytest.fail(f"{packages} is not there: run `make servers`")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)

    rendered = told(
        *("-W", "ignore", "-m", "tests.cluster.render_job", HOME / "kubernetes", kubeconfig),
        PYTHONPATH=str(packages),
    )

    assert (rendered["max_runtime_seconds"], rendered["max_resume_run_attempts"]) == (3600, 0)
    job = rendered["job"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["kind"], job["spec"]["backoffLimit"], pod["restartPolicy"]) == ("Job", 0, "Never")
    assert pod["serviceAccountName"] == "strata"
    assert container["image"] == "strata:0.2.0"
    named = [{"configMapRef": {"name": "strata-places"}}, {"secretRef": {"name": "strata"}}]
    assert container["envFrom"] == named
    requested = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "10Gi"}
    assert container["resources"]["requests"] == requested
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    home = "/var/lib/strata"
    assert mounted == {home, f"{home}/dagster", f"{home}/dagster/dagster.yaml", "/tmp"}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["instance"]["configMap"] == {"name": "strata-dagster"}
    assert volumes["home"]["emptyDir"] == {"sizeLimit": "50Gi"}
    # What the namespace demands of every pod.
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps(job))
    check_manifests(manifest)
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["DAGSTER_HOME"] == "/var/lib/strata/dagster"
